// SPDX-License-Identifier: MIT
// Matrix products: linear layers, and batches of plain products.
#pragma once
#include "attune/context.h"
#include "attune/plan.h"
#include "attune/tensor.h"
#include <array>
#include <string_view>
#include <vector>

namespace attune {

struct LinearOptions {
    std::string_view variant = {};  // run this variant, or fail if it can't; empty: dispatch. Not kept after the call
};

// out = x weight^T + bias: a linear (dense) layer.
//
//   x (..., K)   weight (N, K), or packed   bias (N), or {} for none   out (..., N)
//
// All f32, f64, bf16 or f16 (the last two are summed in f32). x and out have the same rank, 1 to 4, and the same leading
// extents; any strides with a dense last dimension, so heads are split and merged by strides: out (B, S, N) may be a (B, S, H,
// D) array. Any extents from 1, and 0 for the leading ones. Bits of a row depend on that row of x, the type, and the sizes K
// and N alone. out must not overlap itself or an input. A weight of rank 3 is one packed by pack_linear_weight(); the bits are
// those of the unpacked weight. All tensors may be on a device (f32, bf16, f16, a weight that is not packed).
ATTUNE_API Status linear(Context &, const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out,
                         const LinearOptions & = {}) noexcept;

// Extents of a packed weight (N, K): (ceil(N / 64), K, 64), and in bf16 (ceil(N / 64), ceil(K / 2), 128).
constexpr std::array<std::int64_t, 3> packed_weight_extents(DType type, std::int64_t columns, std::int64_t depth) {
    const std::int64_t panel = 64, pair = type == DType::bf16 ? 2 : 1;
    return {columns / panel + (columns % panel != 0), depth / pair + depth % pair, panel * pair};
}

// Packs a weight into panels, the order in which linear() reads it, for layers that are called often: one row then costs one
// read of the weight from memory, and many rows need no transposition.
//
//   weight (N, K)   packed: packed_weight_extents(type, N, K)
//
// Element (n, k) goes to (n / 64, k, n % 64), in bf16 to (n / 64, k / 2, n % 64 * 2 + k % 2); other elements of packed are
// zeros. The order is the same on every CPU, so that packed weights can be kept in files. Both have one type of linear();
// weight has any strides with a dense last dimension; packed is dense, best aligned to a cache line (64 bytes). They must not
// overlap. Packing is not for few columns: each column short of a multiple of 64 costs as much time as a real one.
ATTUNE_API Status pack_linear_weight(Context &, const ConstView &weight, const View &packed,
                                     const LinearOptions & = {}) noexcept;

// out(b) = a(b) x(b): a matrix product for each entry of a batch.
//
//   a (B, n, m)   x (B, m, p)   out (B, n, p);   or all of rank 2, or all of rank 4, (B, H, ...)
//
// Types, strides, extents and errors as for linear(); m = 0 gives zeros.
ATTUNE_API Status batch_dot(Context &, const ConstView &a, const ConstView &x, const View &out,
                            const LinearOptions & = {}) noexcept;

// Sizes of a product, from which plan_product() chooses a variant: x (entries, rows, depth) and out (entries, rows, columns).
struct ProductProblem {
    std::string_view op = "linear";  // "linear", "linear_packed" or "batch_dot"
    DType dtype = DType::f32;
    std::int64_t entries = 1, rows = 1, columns = 1, depth = 1;
    // Elements from one row of the right factor to the next one, 0: dense rows. Of a packed weight, from one panel to the next
    // one, 0: panels that follow each other.
    std::int64_t weight_stride = 0;
};
struct ProductPlan {
    std::string variant = {};                  // name of the variant that would run
    std::string reason = {};                   // why this one
    std::string variant_of_last_columns = {};  // of the columns that fill no tile of `variant`; empty: that one computes them
    std::vector<PlanCandidate> candidates = {};
};
// The variant that linear() or batch_dot() runs for a product of these sizes. Error invalid_argument: another op, a type
// without kernels, a negative size.
ATTUNE_API Status plan_product(const Context &, const ProductProblem &, ProductPlan &) noexcept;

}  // namespace attune
