// SPDX-License-Identifier: MIT
// The multi-head attention layer (Vaswani et al., 2017), forward.
#pragma once
#include "attune/sdpa.h"

namespace attune {

// Weights are (out, in), as linear() takes them; biases may be left out, each on its own. hidden_q = heads * D,
// hidden_k = key_heads * D, hidden_v = key_heads * Dv.
struct MultiHeadWeights {
    ConstView query = {};  // (hidden_q, Eq)
    ConstView key = {};    // (hidden_k, Ek)
    ConstView value = {};  // (hidden_v, Ev)
    ConstView out = {};    // (Eo, heads * Dv)
    ConstView query_bias = {}, key_bias = {}, value_bias = {}, out_bias = {};
};

struct MultiHeadOptions {
    std::int64_t heads = 1;      // of the query; must divide the rows of weights.query
    std::int64_t key_heads = 0;  // of key and value (grouped-query attention); 0: as many as heads
    // Scale, softcap, masks, bias, dropout, lse (B, heads, Sq), weights (B, heads, Sq, Sk)... as in sdpa.h for heads and
    // key_heads; valid_lens hold for every head. variant names the attention's variant.
    SdpaOptions attention = {};
};

// out = concat over heads of attention(query W_q^T + b_q, key W_k^T + b_k, value W_v^T + b_v), times W_out^T, + b_out
//
//   query (B, Sq, Eq)   key (B, Sk, Ek)   value (B, Sk, Ev)   out (B, Sq, Eo)
//
// Self-attention is query = key = value; all widths may differ. All f32, f64, bf16 or f16, any strides with a dense last
// dimension. Heads are split and merged by strides, without copies. Where query, key and value are the same tensor and their
// weights (and biases) follow each other in memory as one (hidden_q + hidden_k + hidden_v, E) array, one product computes all
// three projections. Errors as in sdpa.h and linear.h, with the names used here.
ATTUNE_API Status multi_head_attention(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                                       const MultiHeadWeights &, const View &out, const MultiHeadOptions & = {}) noexcept;

}  // namespace attune
