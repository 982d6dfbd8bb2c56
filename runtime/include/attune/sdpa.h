// SPDX-License-Identifier: MIT
// Attention by scaled dot products and other scores. The definition of the result is tests/reference/sdpa_reference.h.
#pragma once
#include "attune/context.h"
#include "attune/dropout.h"
#include "attune/plan.h"
#include "attune/tensor.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune {

// The score x(i, j) of query q and key k.
//   dot_product  scale * q . k            default scale 1 / sqrt(Dk)
//   general      scale * q . (W k)        W = score_weight (Dq, Dk), so q and k may differ in width; default scale 1
//   cosine       scale * q . k / (|q| |k|), 0 where q or k is all zeros; default scale 1;
//                |q| and |k| from 1e-36 to 1e34 (f64: 1e-304 to 1e302), or 0
//   gaussian     -scale / 2 * |q - k|^2   the Gaussian kernel of Nadaraya-Watson regression, scale = 1 / sigma^2, default 1
// scale 0 gives the average of the values (average pooling).
enum class Score { dot_product, general, cosine, gaussian };

// Causal mask: key j takes part for query i iff j <= i + off, where off is
//   top_left      0
//   bottom_right  Sk - Sq (padding by valid_lens does not move it)
//   offset        SdpaOptions::offset or offsets: the position of query 0 among the keys
enum class Causal { none, top_left, bottom_right, offset };

// Sliding window: key j takes part iff i + off - left <= j <= i + off + right; -1 leaves a side unbounded.
struct Window {
    std::int64_t left = -1, right = -1;
};

// The content of SdpaOptions::weights (ONNX's qk_matmul_output_mode).
//   scaled         x, for every key, masked or not
//   capped         x after softcap, for every key
//   masked         the score that is normalised: after bias, ALiBi and masks; -inf where a key takes no part
//   probabilities  after the softmax and before dropout; 0 where a key takes no part
enum class WeightsMode { scaled, capped, masked, probabilities };

// Options, in the order in which they act: x, softcap, + bias, + ALiBi, masks, sink, softmax, dropout, times value.
// A tensor that broadcasts to (B, Hq, Sq, Sk) has that rank or less, aligned at the last dimension, and each extent is 1
// or the full one; where query has rank 3 or 2 it broadcasts to (B, Sq, Sk) or (Sq, Sk). Its last stride is 1 unless its
// last extent is 1; other strides are free.
struct SdpaOptions {
    Score score = Score::dot_product;
    ConstView score_weight = {};       // of Score::general: (Dq, Dk), type of query
    std::optional<double> scale = {};  // see Score; but in f64, f32 must hold it: finite, 0 only if it is 0
    double softcap = 0;                // c > 0: x becomes c tanh(x / c); 0: off. f32 must hold c and 1 / c, as scale
    ConstView bias = {};               // broadcasts to (B, Hq, Sq, Sk), type of query; -inf masks, numbers are added
    bool alibi = false;                // add -slope(h) |i + off - j|, standard slopes; off as of causal, without it Sk - Sq
    ConstView alibi_slopes = {};       // slopes of ALiBi in place of the standard ones: f32 (Hq) or (B, Hq)
    ConstView mask = {};               // bool, broadcasts to (B, Hq, Sq, Sk): only keys where it is true take part
    Causal causal = Causal::none;
    std::optional<std::int64_t> offset = {};  // if given, off of causal, window and ALiBi, whatever causal says
    ConstView offsets = {};                   // off per batch entry: int32 (B)
    Window window = {};                       // without causal and offset, its off is 0
    ConstView valid_lens = {};                // int32 (B) or (B, Sq) in [0, Sk]: only keys j < len take part
    // Lengths of key and value as caches of capacity Sk (kv_cache.h), in which the Sq keys of this call follow cache_lens[b]
    // older ones: int32 (B) in [0, Sk - Sq]. Equal to valid_lens = cache_lens + Sq and offsets = cache_lens, which must then
    // not be given.
    ConstView cache_lens = {};
    ConstView sinks = {};  // f32 (Hq): attention sink, a score per head that joins the normaliser and has no value
    Dropout dropout = {};
    // Output: log-sum-exp of the scores, sink included: (B, Hq, Sq), or (B, Sq) or (Sq) where query has rank 3 or 2; natural
    // logarithm, -inf for a query without keys (its sink, if there is one). f64 for f64, else f32; any strides that do not
    // overlap.
    View lse = {};
    // Output: weights or scores, (B, Hq, Sq, Sk), or (B, Sq, Sk) or (Sq, Sk) where query has rank 3 or 2. Type of query, last
    // stride 1.
    View weights = {};
    WeightsMode weights_mode = WeightsMode::probabilities;
    bool average_weights = false;  // weights is (B, Sq, Sk) where query has rank 4: the mean over the heads, 0 of no heads
    // The variant is chosen by types, head sizes and options alone, never by the number of queries or keys, among those in
    // which a query has the same bits in every tile of queries: every VariantInfo::schedule but `amx`. So a prompt at once, in
    // chunks and token by token gives the same out and lse. Chunks give their offset: `cache_lens`, `offsets` or `offset`. A
    // `variant` of schedule `amx` is refused. Host only.
    bool invariant = false;
    std::string_view variant = {};  // run this variant, or fail if it can't; empty: dispatch. Not kept after the call
};

// out = softmax(x) value over the keys that every given mask lets take part.
//
//   query (B, Hq, Sq, Dk)   key (B, Hkv, Sk, Dk)   value (B, Hkv, Sk, Dv)   out (B, Hq, Sq, Dv)
//
// All f32, f64, bf16 or f16 (the last two with Score::dot_product only, and computed in f32: docs/numerics.md); or all of rank
// 3, (B, S, D), for one head, or of rank 2, (S, D). Any strides with a dense last dimension: an array laid out (B, S, H, D)
// needs no copy. Hq is a multiple of Hkv: query head h uses key head h * Hkv / Hq (grouped-query attention). Any extents from
// 1, and 0 for B, Hq, Sq or Sk. A query without keys gives 0. The contents of masked keys and values have no effect; NaN in
// others propagates. Scores of -inf, or below -3e38 (f64: -1e308), mask; all others are numbers. A value times the number of
// keys must stay within the range of f32 (f64), in which weighted values are summed. Bits do not depend on threads, on other
// batch entries or on keys beyond an entry's lengths, and time follows the keys within them. Outputs must not overlap each
// other or an input. A refused call writes nothing.
ATTUNE_API Status scaled_dot_product_attention(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                               const View &out, const SdpaOptions & = {}) noexcept;

// The standard slopes of ALiBi (Press et al., 2022): with n the largest power of two up to `heads`, 2^(-8 (h + 1) / n) for
// h < n and 2^(-4 (2 (h - n) + 1) / n) beyond. Empty if heads < 1.
ATTUNE_API std::vector<float> alibi_slopes(std::int64_t heads);

// Sizes and options from which plan_sdpa() chooses a variant. With lengths, each batch entry takes the variant for the keys
// that it holds: those below its length, `cache_lens` + Sq or the largest of its `valid_lens`.
struct SdpaProblem {
    DType dtype = DType::f32;
    std::int64_t batch = 1, query_heads = 1, key_heads = 1, queries = 1, keys = 1, head_dim = 1, value_dim = 1;
    // Given options: `scored` for any of softcap, bias, ALiBi, mask or sinks, and `tables` too for bias or mask; dropout for
    // 0 < p <= 1 - 2^-32 (beyond, no weight is left).
    Score score = Score::dot_product;
    bool scored = false, dropout = false, tables = false;
    // The band of keys that window and causal leave a query, as with_band() sets it. window_keys: the keys of a band that is
    // bounded on both sides, left + right + 1, where causal makes right 0; 0 for no such band. causal: bounded on one side.
    std::int64_t window_keys = 0;
    bool causal = false;
    bool invariant = false;  // SdpaOptions::invariant
    Place place = Place::host;
};
// The problem with window_keys and causal of these options.
ATTUNE_API SdpaProblem with_band(SdpaProblem, Causal, Window) noexcept;
struct Plan {
    std::string variant = {};  // name of the variant that would run; empty where there is nothing to compute
    std::string reason = {};   // why dispatch chose it
    // Upper bound of the scratch that the call holds at a time, all threads together, under any causal mask and window, where
    // every entry holds all keys, or the variant is forced; without averaged weights, and without copies of a bias or mask
    // whose last extent is 1 where there are more keys (each copy has as many elements as the tensor would have with an extent
    // of all keys). On a device: the scratch of a call whose rows begin at multiples of 16 bytes, without lse.
    std::size_t workspace_bytes = 0;
    // The same under any lengths. Entries may then take several variants, one after another: the blocks that one leaves in the
    // Context count as free, since they go back to an allocator that refuses more.
    std::size_t workspace_bytes_of_any_lengths = 0;
    // Name of the variant of the last queries, which fill no tile of `variant`; empty: `variant` computes them.
    std::string variant_of_last_queries = {};
    std::vector<PlanCandidate> candidates = {};  // empty where a variant is forced
};
ATTUNE_API Status plan_sdpa(const Context &, const SdpaProblem &, Plan &) noexcept;

}  // namespace attune
