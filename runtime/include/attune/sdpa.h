// Scaled dot-product attention, forward. The definition of the result is tests/reference/sdpa_reference.h.
#pragma once
#include "attune/context.h"
#include "attune/tensor.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace attune {

// Key j takes part for query i iff j <= i + off, where off is
//   top_left      0
//   bottom_right  Sk - Sq (padding by valid_lens does not move it)
//   offset        SdpaOptions::offset or offsets: the position of query 0 among the keys
enum class Causal { none, top_left, bottom_right, offset };

// Key j takes part iff i + off - left <= j <= i + off + right; -1 leaves a side unbounded.
struct Window {
    std::int64_t left = -1, right = -1;
};

struct SdpaOptions {
    std::optional<double> scale = {};  // of query . key; default 1 / sqrt(Dk)
    Causal causal = Causal::none;
    std::optional<std::int64_t> offset = {};  // if given it is off, also for the window and whatever causal says
    ConstView offsets = {};                   // the same per batch entry: int32 (B)
    Window window = {};                       // without causal and offset, its off is 0
    ConstView valid_lens = {};                // int32 (B) or (B, Sq) in [0, Sk]: only keys j < len take part
    // Output of the log-sum-exp of the scaled scores, (B, Hq, Sq), or (B, Sq) where query has rank 3; natural logarithm,
    // -inf for a query without keys. Type of query, any strides that do not overlap.
    View lse = {};
    std::string_view variant = {};  // run this variant, or fail if it can't; empty: dispatch
};

// out = softmax(scale * query key^T) value over the keys that every given mask lets take part.
//
//   query (B, Hq, Sq, Dk)   key (B, Hkv, Sk, Dk)   value (B, Hkv, Sk, Dv)   out (B, Hq, Sq, Dv)
//
// All f32 or all f64; or all of rank 3, (B, S, D), for one head. Any strides with a dense last dimension, so an array laid
// out (B, S, H, D) is only strides. Hq is a multiple of Hkv: query head h uses key head h * Hkv / Hq. Any extents from 1,
// and 0 for B, Hq, Sq or Sk. A query without keys gives 0. What masked keys and values hold has no effect; NaN in others
// propagates. Scores below -5e28 count as masked. Bits do not depend on threads or on other batch entries. At most 2^31 - 1 elements between the first and the
// last of a tensor. out and lse must not overlap each other or an input.
Status scaled_dot_product_attention(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                    const View &out, const SdpaOptions & = {}) noexcept;

// What a call would do, from the sizes alone.
struct SdpaProblem {
    DType dtype = DType::f32;
    std::int64_t batch = 1, query_heads = 1, key_heads = 1, queries = 1, keys = 1, head_dim = 1, value_dim = 1;
};
struct Plan {
    std::string variant = {};         // name of the variant that would run
    std::string reason = {};          // why this one
    std::size_t workspace_bytes = 0;  // upper bound of the scratch that the call holds at a time, all threads together
};
Status plan_sdpa(const Context &, const SdpaProblem &, Plan &) noexcept;

}  // namespace attune
