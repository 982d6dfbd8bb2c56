// Products with matrices: linear layers, and batches of plain products.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <string_view>

namespace attune {

struct LinearOptions {
    std::string_view variant = {};  // run this variant, or fail if it can't; empty: dispatch
};

// out = x weight^T + bias, a linear (dense) layer.
//
//   x (..., K)   weight (N, K)   bias (N), or {} for none   out (..., N)
//
// All f32, f64, bf16 or f16 (sums in f32 for the last two). x and out have the same rank, 1 to 4, and the same leading extents;
// any strides with a dense last dimension, so heads are split and merged by strides: out (B, S, N) may be a (B, S, H, D) array.
// Any extents from 1, and 0 for the leading ones. Bits of a row depend on that row of x and on the type and sizes K and N
// alone. out must not overlap itself or an input.
Status linear(Context &, const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out,
              const LinearOptions & = {}) noexcept;

// out(b) = a(b) x(b), a product of matrices for each entry of a batch.
//
//   a (B, n, m)   x (B, m, p)   out (B, n, p);   or all of rank 2, or all of rank 4, (B, H, ...)
//
// Types, strides, extents and errors as above; m = 0 gives zeros.
Status batch_dot(Context &, const ConstView &a, const ConstView &x, const View &out, const LinearOptions & = {}) noexcept;

}  // namespace attune
