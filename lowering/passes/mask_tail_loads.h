// SPDX-License-Identifier: MIT
// Masked tail loads: vectors whose last lanes lie beyond the end of an input.
//
// Halide 21 keeps the index of such a load in bounds by min(place, end) (halide/Halide#32 asks for dense loads instead), and
// LLVM gathers its lanes one by one. A masked load reads the lanes within the end alone.
//
//     x[min(ramp(i, 1, 16), x16(last))]  ->  x[ramp(i, 1, 16)] if (ramp(i, 1, 16) <= x16(last))
//
// The lanes beyond are undefined, so nothing may depend on them. For targets with masked loads of the type: all types by
// AVX-512, 32 and 64 bits by AVX2. Refused: nothing; an index of another form stays as it is.
#pragma once
#include "Halide.h"
#include <vector>

namespace attune {

void mask_tail_loads(Halide::Pipeline, const std::vector<Halide::ImageParam> &inputs, const Halide::Target &);

}  // namespace attune
