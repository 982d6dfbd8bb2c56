// SPDX-License-Identifier: MIT
// Attention: what leaves a chunk, the merge of chunks, and the output.
#include "generators/attention/forward/builder.h"

namespace attune {
using namespace Halide;

Expr Builder::sink(Expr head) const { return softmax.M_of_sink(cast(type, in.sinks(head)), in.has_sinks); }

void Builder::collect_chunks() {
    Var r = s.r, c = s.c, d = s.d, t = s.t, h = s.h, b = s.b;
    auto [full, part] = chunk_domains();
    s.chunk_max = Func("chunk_max");
    s.chunk_sum = Func("chunk_sum");
    s.chunk_mixed = Func("chunk_mixed");
    s.chunk_max(r, c, t, h, b) = undef(type);
    s.chunk_sum(r, c, t, h, b) = undef(type);
    s.chunk_mixed(r, d, c, t, h, b) = undef(type);
    for (const auto &[dom, p] : {std::pair(full, s.full), std::pair(part, s.part)}) {
        s.chunk_max(r, dom, t, h, b) = p.row_max(r, dom, t, h, b);
        s.chunk_sum(r, dom, t, h, b) = p.row_sum(r, dom, t, h, b);
        s.chunk_mixed(r, d, dom, t, h, b) = p.mixed(r, d, dom, t, h, b);
    }
}

Expr Builder::chunk_count() const { return (in.keys + numerics.chunk - 1) / numerics.chunk; }

RDom Builder::chunks(const std::string &name) const { return RDom(0, chunk_count(), name); }

void Builder::keep_seen(RDom &dom, const Expr &chunk, bool in_whole) const {
    dom.where(seen(chunk));
    dom.where(in_whole ? whole(chunk) : !whole(chunk));
}

std::pair<RDom, RDom> Builder::chunk_domains() {
    RDom full = chunks("full_chunk"), part = chunks("part_chunk");
    keep_seen(full, full, true);
    keep_seen(part, part, false);
    s.full_chunk = full.x, s.part_chunk = part.x;
    return {full, part};
}

void Builder::merge_tiles() {
    Var r = s.r, d = s.d, i = s.i, t = s.t, h = s.h, b = s.b;
    merge([&](Expr at) { return s.chunk_max(r, at, t, h, b); }, [&](Expr at) { return s.chunk_sum(r, at, t, h, b); },
          [&](Expr at) { return s.chunk_mixed(r, d, at, t, h, b); });
    const int tile = hints.rows_per_tile;
    auto row = [&](Expr i) { return tile ? i % tile : i; };
    auto tile_of = [&](Expr i) { return tile ? i / tile : Expr(0); };
    auto normalised = [&](Expr d, Expr i) { return s.normalised(row(i), min(likely(d), in.value_dim - 1), tile_of(i), h, b); };
    if (hints.out_block) s.out_blocks.emplace("out_block", hints.out_block, std::vector<Var>{h, b}, normalised);
    Expr result = s.out_blocks ? (*s.out_blocks)(d, i, {h, b}) : normalised(d, i);
    s.out = Func("out_stage");
    s.out(d, i, h, b) = Tuple(narrowed(result), s.lse(row(i), tile_of(i), h, b));
}

RDom Builder::merged_chunks(const std::string &name) const {
    RDom dom = chunks(name);
    if (hints.rows_per_tile) dom.where(seen(dom));
    return dom;
}

void Builder::merge_sums(const OfChunk &max_of, const OfChunk &sum_of) {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    s.total_max = Func("total_max");
    s.chunk_scale = Func("chunk_scale");
    s.total_sum = Func("total_sum");
    const RDom max_chunk = merged_chunks("max_chunk"), sum_chunk = merged_chunks("sum_chunk");
    s.max_chunk = max_chunk.x, s.sum_chunk = sum_chunk.x;

    const bool sinks = in.sinks.defined();
    Expr row_sink = sinks ? sink(rows(r, t, h).query_head) : lowest_score(type);
    s.total_max(r, t, h, b) = row_sink;
    s.total_max(r, t, h, b) = softmax.m(s.total_max(r, t, h, b), max_of(max_chunk));
    s.chunk_scale(r, c, t, h, b) = softmax.w(max_of(c), s.total_max(r, t, h, b));
    s.total_sum(r, t, h, b) = sinks ? softmax.L_of_sink(row_sink, s.total_max(r, t, h, b)) : value_of(0);
    s.total_sum(r, t, h, b) = softmax.L(s.total_sum(r, t, h, b), s.chunk_scale(r, sum_chunk, t, h, b), sum_of(sum_chunk));
}

void Builder::merge(const OfChunk &max_of, const OfChunk &sum_of, const OfChunk &mixed_of) {
    Var r = s.r, d = s.d, t = s.t, h = s.h, b = s.b;
    merge_sums(max_of, sum_of);
    s.total_mixed = Func("total_mixed");
    s.normalised = Func("normalised");
    s.lse = Func("lse");
    const RDom mixed_chunk = merged_chunks("mixed_chunk");
    s.mixed_chunk = mixed_chunk.x;
    s.total_mixed(r, d, t, h, b) = value_of(0);
    s.total_mixed(r, d, t, h, b) =
        softmax.O(s.total_mixed(r, d, t, h, b), s.chunk_scale(r, mixed_chunk, t, h, b), mixed_of(mixed_chunk));

    const Expr sum = s.total_sum(r, t, h, b);
    Expr out = softmax.out(s.total_mixed(r, d, t, h, b), sum);
    if (in.dropout.keep_scale.defined()) out *= cast(type, in.dropout.keep_scale);
    s.normalised(r, d, t, h, b) = select(softmax.is_empty(sum), value_of(0), out);
    s.lse(r, t, h, b) = softmax.lse(s.total_max(r, t, h, b), sum);
}

}  // namespace attune
