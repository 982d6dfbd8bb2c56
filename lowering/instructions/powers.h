// SPDX-License-Identifier: MIT
// vrndscaleps and vscalefps of AVX-512, for powers of two in f32.
#pragma once
#include "generators/math/exp2.h"

namespace attune {

// The two instructions (instructions/x86_avx512.ll), or none where the target lacks AVX-512. They replace the eight operations
// by which an exponential clamps a power, rounds it and adds it to an exponent.
PowerInstructions power_instructions(const Halide::Target &);

}  // namespace attune
