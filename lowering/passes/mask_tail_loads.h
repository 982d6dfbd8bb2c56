// Vectors of which the last reaches beyond the end of what it reads.
#pragma once
#include "Halide.h"
#include <vector>

namespace attune {

// Loads of these inputs whose places are held back at an end, min(place, end), as those of columns beyond the last, take the lanes
// within it alone, with one masked load where the target has it: LLVM gathers all of them one by one. What the lanes beyond are given
// is undefined, so nothing may depend on it.
void mask_loads_beyond_end(Halide::Pipeline, const std::vector<Halide::ImageParam> &inputs, const Halide::Target &);

}  // namespace attune
