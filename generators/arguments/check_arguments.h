// SPDX-License-Identifier: MIT
// Check that a kernel takes the arguments that the runtime passes.
#pragma once
#include "generators/arguments/kernel_arguments.h"

namespace Halide::Internal {
class AbstractGenerator;
}

namespace attune {

// The first difference, in one line, between the inputs and outputs of a generator, with parameters set to `given`, and its
// list in kernel_arguments.cpp; empty if there is none, or no list: the runtime calls no kernel of a generator without one.
std::string argument_mismatch(Halide::Internal::AbstractGenerator &, const ParameterValues &given);

// argument_mismatch() for the generator and parameters of its program's command line; prints a difference to stderr. Run after
// the emission: Halide makes the second generator's names different from the kernel's.
bool arguments_match(const std::vector<std::string> &command_line);

}  // namespace attune
