// SPDX-License-Identifier: MIT
// CUDA instructions that take addresses in shared memory: ldmatrix, and cp.async in a double-buffered loop.
//
// Halide 21 has an expression for the elements of shared memory and none for their addresses, and no copy that does not go
// through registers. Halide 22 has cp.async as MemoryType::GPUSharedAsync (halide/Halide#9263), without software pipelining.
//
//     for (c) { shared[i] = attune_copied(address(c), given); barrier; use(shared); barrier }
//     ->  copy(0); close; for (c) { if (c + 1 < end) copy(c + 1); close; wait; barrier; use(shared of half c & 1); ... }
//
// Refused: shared memory that is not one array of constant size, copies that no barrier follows or no serial loop holds,
// addresses that are not known when the kernel is made, and a kernel that neither copies nor loads matrices.
#pragma once
#include "Halide.h"

namespace attune {

// ldmatrix: register e of a lane from a load of four matrices (MmaInstructions::matrices). `row` is an element of a Func in
// shared memory.
Halide::Expr matrices_in_shared_memory(const Halide::Expr &row, const Halide::Expr &e, bool transposed);

// cp.async: the value of a Func in shared memory that is copied, in vectors of 16 bytes, of which `given` are read at an
// address in global memory and the others are 0.
Halide::Expr copied_to_shared_memory(const Halide::Expr &address, const Halide::Expr &given);

// Lowering pass that replaces those elements by addresses. In each iteration a serial loop with copies starts the copies of the
// next iteration, and waits for its own: shared memory becomes twice as large, and its halves alternate. All Funcs that a loop
// has in shared memory are copied, before the first barrier of an iteration. Copies before the loop are complete when the loop
// first reads; their memory lies before the loop's copies, and is not doubled.
void pipeline_async_copies(Halide::Pipeline);

}  // namespace attune
