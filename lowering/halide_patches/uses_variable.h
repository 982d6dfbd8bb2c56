// SPDX-License-Identifier: MIT
#pragma once
// Cached stmt_or_expr_uses_var() for Halide's compiler, which calls it millions of times a kernel: the calls took half of the
// time in which a kernel of attention was made.
#include <Halide.h>

namespace attune {

// Whether the expression uses or defines the variable, also through the variables that the scope binds, as
// Halide::Internal::stmt_or_expr_uses_var<Expr>(). The function has that name for the linker, so libHalide calls it in a
// program that links this file. (The template cannot be specialised: Halide.h instantiates it.) Without this file, and where a
// libHalide binds its own calls, kernels are the same and take twice as long to make.
bool expression_uses_variable(const Halide::Expr &expression, const std::string &variable,
                              const Halide::Internal::Scope<Halide::Expr>
                                  &bound) asm("_ZN6Halide8Internal21stmt_or_expr_uses_varINS_4ExprEEEbRKT_"
                                              "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEERKNS0_5ScopeIS2_EE");

}  // namespace attune
