// SPDX-License-Identifier: MIT
#include "generators/attention/forward/weights_stages.h"
#include "generators/attention/forward/builder.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;

WeightsStages weights_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints, const Score &score,
                             Expr probabilities) {
    const int tile = hints.rows_per_tile, chunk = numerics.chunk;
    Builder build = query_rows(in, numerics, hints, score);
    SdpaStages &s = build.s;
    Var r = s.r, k = s.k, c = s.c, i = s.i, t = s.t, h = s.h, b = s.b, j("j");
    WeightsStages w;
    build.prepare();
    build.intervals();
    build.queries();

    // Scores are kept as bits because of the -inf, and then sums mean nothing.
    const Type bits = UInt(numerics.accumulator.bits());
    const Expr zero = build.value_of(0);
    const Expr masked_weight = reinterpret(
        numerics.accumulator, select(probabilities, reinterpret(bits, zero), minus_infinity_bits(numerics.accumulator)));
    w.weight = Func("weight");
    w.chunk = Func("chunk");
    w.weight(r, j, t, h, b) = undef(numerics.accumulator);
    w.chunk(r, c, t, h, b) = Tuple(lowest_score(numerics.accumulator), zero);
    auto take = [&](SdpaPartials &p, WeightsStages::Chunk &taken, const std::string &suffix, bool masked) {
        p = build.scores(suffix, masked);
        build.row_max(p, suffix, masked);
        const Expr logit = p.logit(r, k, c, t, h, b);
        const Expr weight = reinterpret(bits, build.softmax.p(logit, p.row_max(r, c, t, h, b)));
        const Expr raw = reinterpret(bits, build.softmax.natural(logit));
        Expr made = reinterpret(numerics.accumulator, select(probabilities, weight, raw));
        if (masked) {
            Expr kept = !is_masked(logit);
            // Blocks of keys that no row of the tile sees are left out of a chunk's scores.
            if (tile) kept = build.seen_keys(c, k / numerics.key_block * numerics.key_block, numerics.key_block) && kept;
            made = select(kept, made, masked_weight);
        }
        taken.made_weight = Func("made_weight" + suffix);
        taken.made_weight(r, k, c, t, h, b) = made;
        RDom pairs(0, chunk, 0, build.chunk_count(), "pair" + suffix);
        if (tile) build.keep_seen(pairs, pairs.y, !masked);
        taken.key = pairs.x, taken.chunk = pairs.y;
        const Expr of_pair = taken.made_weight(r, pairs.x, pairs.y, t, h, b), at = build.joined(pairs.y);
        w.weight(r, build.joined(pairs.y * chunk + pairs.x), t, h, b) = of_pair;
        w.chunk(r, at, t, h, b) = Tuple(p.row_max(r, pairs.y, t, h, b), w.chunk(r, at, t, h, b)[1] + of_pair);
    };
    if (tile) take(s.full, w.full, "", false);
    take(s.part, w.part, tile ? "_part" : "", true);
    if (tile) {
        RDom unseen(0, chunk, 0, build.chunk_count(), "unseen");
        unseen.where(!build.seen(unseen.y));
        w.unseen_key = unseen.x, w.unseen_chunk = unseen.y;
        w.weight(r, unseen.y * chunk + unseen.x, t, h, b) = masked_weight;
    }
    auto of_chunk = [&](int n) { return [&, n](Expr at) { return w.chunk(r, at, t, h, b)[n]; }; };
    build.merge_sums(of_chunk(0), of_chunk(1));

    w.share = Func("share");
    const int block = std::max(hints.pair_block, 1);
    Expr sum = s.total_sum(r, t, h, b);
    w.share(r, c, t, h, b) = select(strict_float(sum == zero), zero, s.chunk_scale(r, c, t, h, b) / sum);
    auto value = [&](Expr j, Expr i) {
        Expr r = tile ? i % tile : i, t = tile ? i / tile : Expr(0);
        Expr x = w.weight(r, j, t, h, b);
        // Of the first key of the block: so Halide sees that a block has one chunk.
        Expr c = j / block * block / chunk;
        Expr weight = reinterpret(bits, x * w.share(r, c, t, h, b));
        return reinterpret(numerics.accumulator, select(probabilities, weight, reinterpret(bits, x)));
    };
    w.out = Func("out_stage");
    if (hints.pair_block > 1) w.transposed.emplace_back("turned", hints.pair_block, std::vector<Var>{h, b}, value);
    w.out(j, i, h, b) = build.narrowed(w.transposed.empty() ? value(j, i) : w.transposed[0](j, i, {h, b}));
    w.s = s;
    return w;
}

}  // namespace attune
