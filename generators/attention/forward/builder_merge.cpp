// SPDX-License-Identifier: MIT
// Results of a KV block, the merge of KV blocks, and the output.
#include "generators/attention/forward/builder.h"

namespace attune {
using namespace Halide;

Expr Builder::sink(Expr head) const { return softmax.M_of_sink(cast(type, in.sinks(head)), in.has_sinks); }

void Builder::collect_kv_blocks() {
    Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    auto [full, partial] = kv_block_domains();
    s.block_max = Func("block_max");
    s.block_sum = Func("block_sum");
    s.block_pv = Func("block_pv");
    s.block_max(r, c, t, h, b) = undef(type);
    s.block_sum(r, c, t, h, b) = undef(type);
    s.block_pv(r, d, c, t, h, b) = undef(type);
    for (const auto &[dom, p] : {std::pair(full, s.full), std::pair(partial, s.partial)}) {
        s.block_max(r, dom, t, h, b) = p.row_max(r, dom, t, h, b);
        s.block_sum(r, dom, t, h, b) = p.row_sum(r, dom, t, h, b);
        s.block_pv(r, d, dom, t, h, b) = p.pv(r, d, dom, t, h, b);
    }
}

Expr Builder::kv_block_count() const { return (in.keys + numerics.kv_block - 1) / numerics.kv_block; }

RDom Builder::kv_blocks(const std::string &name) const { return RDom(0, kv_block_count(), name); }

void Builder::keep_seen(RDom &dom, const Expr &kv_block, bool in_whole) const {
    dom.where(seen(kv_block));
    dom.where(in_whole ? whole(kv_block) : !whole(kv_block));
}

std::pair<RDom, RDom> Builder::kv_block_domains() {
    RDom full = kv_blocks("full_block"), partial = kv_blocks("partial_block");
    keep_seen(full, full, true);
    keep_seen(partial, partial, false);
    s.full_block = full.x, s.partial_block = partial.x;
    return {full, partial};
}

void Builder::merge_tiles() {
    Var r = s.r, d = s.d, i = s.i, t = s.t, h = s.h, b = s.b;
    merge([&](Expr at) { return s.block_max(r, at, t, h, b); }, [&](Expr at) { return s.block_sum(r, at, t, h, b); },
          [&](Expr at) { return s.block_pv(r, d, at, t, h, b); });
    const int tile = hints.rows_per_tile;
    auto row = [&](Expr i) { return tile ? i % tile : i; };
    auto tile_of = [&](Expr i) { return tile ? i / tile : Expr(0); };
    auto normalised = [&](Expr d, Expr i) { return s.normalised(row(i), min(likely(d), in.value_dim - 1), tile_of(i), h, b); };
    if (hints.out_block) s.out_blocks.emplace("out_block", hints.out_block, std::vector<Var>{h, b}, normalised);
    Expr result = s.out_blocks ? (*s.out_blocks)(d, i, {h, b}) : normalised(d, i);
    s.out = Func("out_stage");
    s.out(d, i, h, b) = Tuple(narrowed(result), s.lse(row(i), tile_of(i), h, b));
}

RDom Builder::merged_kv_blocks(const std::string &name) const {
    RDom dom = kv_blocks(name);
    if (hints.rows_per_tile) dom.where(seen(dom));
    return dom;
}

void Builder::merge_sums(const OfKvBlock &max_of, const OfKvBlock &sum_of) {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    s.total_max = Func("total_max");
    s.block_scale = Func("block_scale");
    s.total_sum = Func("total_sum");
    const RDom max_block = merged_kv_blocks("max_block"), sum_block = merged_kv_blocks("sum_block");
    s.max_block = max_block.x, s.sum_block = sum_block.x;

    const bool sinks = in.sinks.defined();
    Expr row_sink = sinks ? sink(rows(r, t, h).query_head) : lowest_score(type);
    s.total_max(r, t, h, b) = row_sink;
    s.total_max(r, t, h, b) = softmax.m(s.total_max(r, t, h, b), max_of(max_block));
    s.block_scale(r, c, t, h, b) = softmax.w(max_of(c), s.total_max(r, t, h, b));
    s.total_sum(r, t, h, b) = sinks ? softmax.L_of_sink(row_sink, s.total_max(r, t, h, b)) : value_of(0);
    s.total_sum(r, t, h, b) = softmax.L(s.total_sum(r, t, h, b), s.block_scale(r, sum_block, t, h, b), sum_of(sum_block));
}

void Builder::merge(const OfKvBlock &max_of, const OfKvBlock &sum_of, const OfKvBlock &pv_of) {
    Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    merge_sums(max_of, sum_of);
    s.total_pv = Func("total_pv");
    s.normalised = Func("normalised");
    s.lse = Func("lse");
    const RDom pv_block = merged_kv_blocks("pv_block");
    s.pv_block = pv_block.x;
    s.total_pv(r, d, t, h, b) = value_of(0);
    s.total_pv(r, d, t, h, b) = softmax.O(s.total_pv(r, d, t, h, b), s.block_scale(r, pv_block, t, h, b), pv_of(pv_block));

    const Expr sum = s.total_sum(r, t, h, b);
    Expr out = softmax.out(s.total_pv(r, d, t, h, b), sum);
    if (in.dropout.keep_scale.defined()) out *= cast(type, in.dropout.keep_scale);
    s.normalised(r, d, t, h, b) = select(softmax.is_empty(sum), value_of(0), out);
    s.lse(r, t, h, b) = softmax.lse(s.total_max(r, t, h, b), sum);
}

}  // namespace attune
