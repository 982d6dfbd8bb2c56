// Shuffles of the vectors of a BlockTranspose.
#pragma once
#include "Halide.h"

namespace attune {

// What is left to do in a pipeline with such blocks: a shuffle of two vectors reads these, not what lies between its first and last
// element, nor every second one, and rows that were written by groups are read by groups. LLVM keeps vectors in registers only if
// they are read as they were written.
void shuffle_whole_vectors(Halide::Pipeline);

}  // namespace attune
