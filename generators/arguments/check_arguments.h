// SPDX-License-Identifier: MIT
// Whether a kernel takes the arguments that the runtime passes.
#pragma once
#include "generators/arguments/kernel_arguments.h"

namespace Halide::Internal {
class AbstractGenerator;
}

namespace attune {

// Where the inputs and outputs of a generator, whose parameters are set to `given`, first differ from its list in
// kernel_arguments.cpp, in a line; empty if nowhere, or if it has no list: the runtime calls no kernel of those.
std::string argument_mismatch(Halide::Internal::AbstractGenerator &, const ParameterValues &given);

// The same for the generator and parameters of a command line of its program; says on stderr where they differ. Run behind the
// emission: names that Halide gives the second generator are then not those of the kernel.
bool arguments_match(const std::vector<std::string> &command_line);

}  // namespace attune
