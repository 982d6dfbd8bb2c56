// The largest magnitude of each batch entry, which additive attention chooses its form by.
#pragma once
#include "attune/tensor.h"
#include "context_state.h"

namespace attune {

// per_batch[b] = max |x(b, h, s, d)|, infinite if there is a NaN, 0 of nothing. x is f32 of rank 4, its last dimension dense.
Status max_magnitude(Context::State &, const ConstView &x, float *per_batch);

}  // namespace attune
