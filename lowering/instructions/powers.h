// The instructions of AVX-512 for powers of two.
#pragma once
#include "generators/math/exp2.h"

namespace attune {

// What takes vectors of 16 floats, and whole multiples of them; nothing where the target or the way that the kernel leaves by has no
// such instructions. Takes write_power_instructions(). Zen 5 alone: nobody has timed them elsewhere.
PowerInstructions power_instructions(const Halide::Target &);

// Writes them (lowering/instructions/stand_ins.h), once the pipeline is lowered.
void write_power_instructions(Halide::Pipeline);

}  // namespace attune
