#include "generators/sdpa/weights_stages.h"
#include "generators/math/exp2.h"
#include "generators/sdpa/builder.h"

namespace attune {
using namespace Halide;

WeightsStages weights_stages(const SdpaInputs &in, const SdpaShape &shape, const Score &score, Expr probabilities) {
    const int tile = shape.rows_per_tile, chunk = shape.chunk;
    Builder build = query_rows(in, shape, score);
    SdpaStages &s = build.s;
    Var r = s.r, k = s.k, c = s.c, i = s.i, t = s.t, h = s.h, b = s.b, j("j");
    WeightsStages w;
    build.prepare();
    build.intervals();
    build.queries();
    s.part = build.scores(tile ? "_part" : "", true);
    w.logits = Func("logits");
    if (tile) {
        s.full = build.scores("", false);
        auto [full, part] = build.chunk_domains();
        RDom unseen = build.chunks("unseen_chunk");
        unseen.where(!build.seen(unseen));
        w.full_chunk = full.x, w.part_chunk = part.x, w.unseen_chunk = unseen.x;
        w.logits(r, k, c, t, h, b) = undef(shape.accumulator);
        w.logits(r, k, full, t, h, b) = s.full.logit(r, k, full, t, h, b);
        // Blocks of keys that no row of the tile sees are left out of a chunk's scores.
        Expr seen = build.seen_keys(part, k / shape.key_block * shape.key_block, shape.key_block);
        w.logits(r, k, part, t, h, b) = select(seen, s.part.logit(r, k, part, t, h, b), build.value_of(masked_score));
        w.logits(r, k, unseen, t, h, b) = build.value_of(masked_score);
    } else {
        w.logits(r, k, c, t, h, b) = s.part.logit(r, k, c, t, h, b);
    }

    RDom max_all(0, chunk, 0, (in.keys + chunk - 1) / chunk, "max"), sum_all(0, chunk, 0, (in.keys + chunk - 1) / chunk, "sum");
    w.max_key = max_all.x, w.max_chunk = max_all.y, w.sum_key = sum_all.x, w.sum_chunk = sum_all.y;
    w.total_max = Func("total_max");
    w.weight = Func("weight");
    w.total_sum = Func("total_sum");
    Expr lowest = build.value_of(lowest_max), zero = build.value_of(0);
    Expr sink = in.sinks.defined() ? build.sink(build.rows(r, t, h).query_head) : lowest;
    w.total_max(r, t, h, b) = sink;
    w.total_max(r, t, h, b) = max(w.total_max(r, t, h, b), w.logits(r, max_all.x, max_all.y, t, h, b));
    // Where scores are wanted this holds them, as bits because of the -inf, and the sum means nothing.
    Expr logit = w.logits(r, k, c, t, h, b), masked = build.is_masked(logit);
    const Type bits = UInt(shape.accumulator.bits());
    Expr weight = select(masked, zero, exp2_nonpositive(build.base2(logit - w.total_max(r, t, h, b))));
    Expr raw = select(masked, minus_infinity_bits(shape.accumulator), reinterpret(bits, build.natural(logit)));
    w.weight(r, k, c, t, h, b) = reinterpret(shape.accumulator, select(probabilities, reinterpret(bits, weight), raw));
    w.total_sum(r, t, h, b) = in.sinks.defined() ? build.sink_weight(sink, w.total_max(r, t, h, b)) : zero;
    w.total_sum(r, t, h, b) += w.weight(r, sum_all.x, sum_all.y, t, h, b);

    w.share = Func("share");
    Expr sum = w.total_sum(r, t, h, b);
    w.share(r, t, h, b) = select(strict_float(sum == zero), zero, build.value_of(1) / sum);
    auto value = [&](Expr j, Expr i) {
        Expr r = tile ? i % tile : i, t = tile ? i / tile : Expr(0);
        Expr x = w.weight(r, j % chunk, j / chunk, t, h, b);
        Expr weight = reinterpret(bits, x * w.share(r, t, h, b));
        return reinterpret(shape.accumulator, select(probabilities, weight, reinterpret(bits, x)));
    };
    w.out = Func("out_stage");
    if (shape.pair_block > 1) w.transposed.emplace_back("turned", shape.pair_block, std::vector<Var>{h, b}, value);
    w.out(j, i, h, b) = build.narrowed(w.transposed.empty() ? value(j, i) : w.transposed[0](j, i, {h, b}));
    w.s = s;
    return w;
}

}  // namespace attune
