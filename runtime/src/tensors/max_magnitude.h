// SPDX-License-Identifier: MIT
// The largest magnitude of each batch entry: additive attention chooses its form by it, and whether values are all finite
// shows in it.
#pragma once
#include "attune/tensor.h"
#include "dispatch/op_call.h"
#include "execution/context_state.h"
#include <limits>

namespace attune {

// per_batch[b] = max |x(b, h, s, d)|, infinite if there is a NaN, 0 of nothing. x is f32, bf16 or f16, of rank 4, its last
// dimension dense.
Status max_magnitude(Context::State &, const ConstView &x, float *per_batch);
// The same by a kernel that has been chosen.
Status max_magnitude(Context::State &, const VariantRecord &, const ConstView &x, float *per_batch);
// Which kernel that takes; called beforehand by functions that must not refuse it between kernels.
Status choose_max_magnitude(const Context::State &, DType, Choice &);
// Scratch that a call for x of these extents holds, but for what the Context adds to each block.
std::size_t max_magnitude_bytes(const Context::State &, DType, std::int64_t batch, std::int64_t heads, std::int64_t rows);
inline bool all_finite(float largest) { return largest <= std::numeric_limits<float>::max(); }

}  // namespace attune
