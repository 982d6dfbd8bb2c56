// SPDX-License-Identifier: MIT
// Visits of every view of a call's arguments, and the changes made to all views before anything else reads them.
#pragma once
#include "attune/additive_backward.h"
#include "attune/append.h"
#include "attune/detail/user_attention.h"
#include "attune/kv_cache.h"
#include "attune/linear_backward.h"
#include "attune/masked_softmax.h"
#include "attune/merge.h"
#include "attune/multi_head_backward.h"
#include "attune/paged.h"
#include "attune/sdpa_backward.h"
#include <vector>

namespace attune {

using detail::ArrayView, detail::CaptureArgument;

// f(view) for each view of an argument.
template<typename Data, typename F> void each_view(BasicView<Data> &v, const F &f) { f(v); }
template<typename F> void each_view(SdpaOptions &o, const F &f) {
    f(o.score_weight), f(o.bias), f(o.alibi_slopes), f(o.mask), f(o.offsets), f(o.valid_lens), f(o.cache_lens), f(o.sinks);
    f(o.lse), f(o.weights);
}
template<typename F> void each_view(SdpaForward &v, const F &f) { f(v.out), f(v.lse), f(v.grad_out), f(v.grad_lse); }
template<typename F> void each_view(SdpaGradients &g, const F &f) {
    f(g.query), f(g.key), f(g.value), f(g.bias), f(g.alibi_slopes), f(g.sinks), f(g.score_weight);
}
template<typename F> void each_view(AdditiveOptions &o, const F &f) {
    f(o.w_query), f(o.w_key), f(o.b_query), f(o.b_key), f(o.w_score);
    each_view(o.attention, f);
}
template<typename F> void each_view(AdditiveGradients &g, const F &f) {
    f(g.query), f(g.key), f(g.value), f(g.w_query), f(g.w_key), f(g.b_query), f(g.b_key), f(g.w_score);
    f(g.bias), f(g.alibi_slopes), f(g.sinks);
}
template<typename F> void each_view(MaskedSoftmaxOptions &o, const F &f) { f(o.valid_lens); }
template<typename F> void each_view(RowSteps &s, const F &f) { f(s.norm_weight), f(s.rope.cos), f(s.rope.sin); }
template<typename V, typename F> void each_view(BasicPages<V> &p, const F &f) { f(p.rows), f(p.scale), f(p.minimum); }
template<typename F> void each_view(PagedOptions &o, const F &f) {
    f(o.distance_bias), f(o.alibi_slopes), f(o.tree_mask), f(o.positions), f(o.sinks), f(o.indptr);
    f(o.lse), f(o.weight_sums);
    f(o.prefix.block_table), f(o.prefix.lens), f(o.prefix.of);
}
template<typename F> void each_view(AppendOptions &o, const F &f) { f(o.positions), each_view(o.key_steps, f); }
template<typename F> void each_view(KvAppendOptions &o, const F &f) {
    f(o.new_lens), f(o.positions), each_view(o.key_steps, f);
}
template<typename F> void each_view(PartialAttention &p, const F &f) { f(p.out), f(p.lse); }
template<typename F> void each_view(LinearGradients &g, const F &f) { f(g.x), f(g.weight), f(g.bias); }
template<typename F> void each_view(MultiHeadWeights &w, const F &f) {
    f(w.query), f(w.key), f(w.value), f(w.out), f(w.query_bias), f(w.key_bias), f(w.value_bias), f(w.out_bias);
}
template<typename F> void each_view(MultiHeadOptions &o, const F &f) { each_view(o.attention, f); }
template<typename F> void each_view(MultiHeadWeightGradients &w, const F &f) {
    f(w.query), f(w.key), f(w.value), f(w.out), f(w.query_bias), f(w.key_bias), f(w.value_bias), f(w.out_bias);
}
template<typename F> void each_view(MultiHeadGradients &g, const F &f) {
    f(g.query), f(g.key), f(g.value);
    each_view(g.weights, f), each_view(g.attention, f);
}
template<typename F> void each_view(CaptureArgument &c, const F &f) { f(c.buffer); }

// Replaces the strides of extents of one and of views without elements by a dense array's: NumPy and PyTorch leave arbitrary
// values there, which kernels and choices would otherwise use.
template<typename Data> void normalise(BasicView<Data> &v) {
    if (v.rank < 1 || v.rank > max_rank) return;  // not given, or refused
    bool empty = false;
    for (int n = 0; n < v.rank; n++) empty = empty || v.extent[n] == 0;
    std::int64_t dense = 1;  // stride behind the inner dimensions
    for (int n = v.rank - 1; n >= 0; n--) {
        if (empty || v.extent[n] == 1) v.stride[n] = dense;
        const __int128 next = static_cast<__int128>(v.stride[n]) * v.extent[n];
        dense = static_cast<std::int64_t>(next);
        if (empty || dense != next) dense = 0;
    }
}
template<typename Argument> Argument normalised(const Argument &argument) {
    Argument a = argument;
    each_view(a, [](auto &v) { normalise(v); });
    return a;
}
template<typename Argument> std::vector<Argument> normalised(const ArrayView<const Argument> &arguments) {
    std::vector<Argument> all(arguments.begin(), arguments.end());
    for (Argument &a : all) each_view(a, [](auto &v) { normalise(v); });
    return all;
}

// An argument with its memory marked as the host's.
template<typename Argument> Argument as_host(const Argument &argument) {
    Argument a = argument;
    each_view(a, [](auto &v) { v.place = Place::host; });
    return a;
}

}  // namespace attune
