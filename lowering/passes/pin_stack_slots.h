// Stages whose storage LLVM can keep in registers.
#pragma once
#include "Halide.h"

namespace attune {

// Gives what is only read and written at constant places storage of its own, on CPUs with 32 vector registers. Halide 21 lets a stage
// take over the stack memory of one that is done with, and LLVM keeps none of it in registers where either of the two computes its
// places.
void keep_in_registers(Halide::Pipeline, const Halide::Target &);

}  // namespace attune
