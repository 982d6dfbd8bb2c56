// SPDX-License-Identifier: MIT
// Largest magnitude of each batch entry: additive attention chooses its form by it, and a finite one shows that all values are
// finite.
#pragma once
#include "attune/tensor.h"
#include "dispatch/op_call.h"
#include "execution/context_state.h"
#include <limits>

namespace attune {

// per_batch[b] = max |x(b, h, s, d)|, infinite if there is a NaN, 0 without elements. x is f32, bf16 or f16, of rank 4, its
// last dimension dense.
Status max_magnitude(Context::State &, const ConstView &x, float *per_batch);
// Computes the same by a kernel that choose_max_magnitude() has chosen.
Status max_magnitude(Context::State &, const VariantRecord &, const ConstView &x, float *per_batch);
// Chooses the kernel, for functions that must not fail between kernels.
Status choose_max_magnitude(const Context::State &, DType, Choice &);
// Scratch of a call for x of these extents, in bytes, without the Context's header on each block.
std::size_t max_magnitude_bytes(const Context::State &, DType, std::int64_t batch, std::int64_t heads, std::int64_t rows);
inline bool all_finite(float largest) { return largest <= std::numeric_limits<float>::max(); }

}  // namespace attune
