// SPDX-License-Identifier: MIT
#pragma once
// A question that Halide's compiler asks millions of times a kernel: half of the time that a kernel of attention took to make
// went into its answers.
#include <Halide.h>

namespace attune {

// Whether the expression uses or defines the variable, also through the variables that the scope binds: what
// Halide::Internal::stmt_or_expr_uses_var<Expr>() answers. It has that function's name for the linker, so a program that links
// this file has libHalide ask it. (The template cannot be specialised: Halide.h instantiates it.) Without this file, and
// where a libHalide binds its own calls, kernels are the same and take twice as long to make.
bool expression_uses_variable(const Halide::Expr &expression, const std::string &variable,
                              const Halide::Internal::Scope<Halide::Expr>
                                  &bound) asm("_ZN6Halide8Internal21stmt_or_expr_uses_varINS_4ExprEEEbRKT_"
                                              "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS0_5ScopeIS2_EE");

}  // namespace attune
