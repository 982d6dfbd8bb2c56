// Instructions of CUDA that take addresses in shared memory, which Halide 21 has no expression for.
#pragma once
#include "Halide.h"

namespace attune {

// ldmatrix: register e of what a lane gets of four matrices (FragmentInstructions::matrices). `row` is an element of a Func
// in shared memory.
Halide::Expr matrices_in_shared_memory(const Halide::Expr &row, const Halide::Expr &e, bool transposed);

// cp.async: the value of a Func in shared memory that is copied, in vectors of 16 bytes, of which `given` are read at an
// address in global memory and the others are 0.
Halide::Expr copied_to_shared_memory(const Halide::Expr &address, const Halide::Expr &given);

// A lowering pass that puts addresses in the place of those elements. A serial loop that copies asks in each iteration for
// what the next one reads, and waits for what it reads itself: shared memory becomes twice as large, and its halves take turns.
// All Funcs that a loop has in shared memory are copied, before the first barrier of an iteration. What is copied before the loop
// is there when the loop first reads; it lies before what the loop copies, and is not doubled.
void take_shared_addresses(Halide::Pipeline);

}  // namespace attune
