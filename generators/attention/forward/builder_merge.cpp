// Attention: what leaves a chunk, the merge of chunks, and the output.
#include "generators/attention/forward/builder.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;

Expr Builder::sink(Expr head) const {
    Expr x = cast(type, in.sinks(head));
    return select(in.has_sinks && !is_masked(x), x, lowest_score(type));
}

Expr Builder::sink_weight(Expr sink, Expr total_max) const {
    return select(strict_float(sink == lowest_score(type)), value_of(0), power_of(strict_float(sink - total_max)));
}

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

Expr Builder::chunk_count() const { return (in.keys + shape.chunk - 1) / shape.chunk; }

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
    const int tile = shape.rows_per_tile;
    auto row = [&](Expr i) { return tile ? i % tile : i; };
    auto tile_of = [&](Expr i) { return tile ? i / tile : Expr(0); };
    auto normalised = [&](Expr d, Expr i) { return s.normalised(row(i), min(likely(d), in.value_dim - 1), tile_of(i), h, b); };
    if (shape.out_block) s.out_blocks.emplace("out_block", shape.out_block, std::vector<Var>{h, b}, normalised);
    Expr result = s.out_blocks ? (*s.out_blocks)(d, i, {h, b}) : normalised(d, i);
    s.out = Func("out_stage");
    s.out(d, i, h, b) = Tuple(narrowed(result), s.lse(row(i), tile_of(i), h, b));
}

RDom Builder::merged_chunks(const std::string &name) const {
    RDom dom = chunks(name);
    if (shape.rows_per_tile) dom.where(seen(dom));
    return dom;
}

void Builder::merge_sums(const OfChunk &max_of, const OfChunk &sum_of) {
    Var r = s.r, c = s.c, t = s.t, h = s.h, b = s.b;
    s.total_max = Func("total_max");
    s.chunk_scale = Func("chunk_scale");
    s.total_sum = Func("total_sum");
    const RDom max_chunk = merged_chunks("max_chunk"), sum_chunk = merged_chunks("sum_chunk");
    s.max_chunk = max_chunk.x, s.sum_chunk = sum_chunk.x;

    // A sink is one more score, which has no value.
    const bool sinks = in.sinks.defined();
    Expr row_sink = sinks ? sink(rows(r, t, h).query_head) : lowest_score(type);
    s.total_max(r, t, h, b) = row_sink;
    s.total_max(r, t, h, b) = max(s.total_max(r, t, h, b), max_of(max_chunk));
    s.chunk_scale(r, c, t, h, b) = power_of(strict_float(max_of(c) - s.total_max(r, t, h, b)));
    s.total_sum(r, t, h, b) = sinks ? sink_weight(row_sink, s.total_max(r, t, h, b)) : value_of(0);
    // Strict, or code generation may conclude that the sum is no NaN and drop the question below.
    s.total_sum(r, t, h, b) = strict_float(s.total_sum(r, t, h, b) + s.chunk_scale(r, sum_chunk, t, h, b) * sum_of(sum_chunk));
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
    s.total_mixed(r, d, t, h, b) += s.chunk_scale(r, mixed_chunk, t, h, b) * mixed_of(mixed_chunk);

    // A row that sees no key has sum 0. Strict, so that a NaN sum is not taken for one; and -inf as a bit pattern,
    // because arithmetic on it would be undefined.
    Expr sum = s.total_sum(r, t, h, b);
    Expr empty = strict_float(sum == value_of(0));
    // By the inverse, which is one for all channels: a division takes as long as eight products. Strict, or it is one again.
    Expr mean = s.total_mixed(r, d, t, h, b) * strict_float(value_of(1) / sum);
    if (in.dropout.keep_scale.defined()) mean *= cast(type, in.dropout.keep_scale);
    s.normalised(r, d, t, h, b) = select(empty, value_of(0), mean);
    const Type bits = UInt(type.bits());
    Expr lse = reinterpret(bits, natural(s.total_max(r, t, h, b)) + log(sum));
    lse = select(is_nan(sum), reinterpret(bits, sum), lse);  // log() of a NaN may be a number
    s.lse(r, t, h, b) = reinterpret(type, select(empty, minus_infinity_bits(type), lse));
}

}  // namespace attune
