// SPDX-License-Identifier: MIT
#include "generators/attention/forward/weights_stages.h"
#include "generators/attention/forward/builder.h"
#include "generators/math/exp2.h"

namespace attune {
using namespace Halide;

WeightsStages weights_stages(const SdpaInputs &in, const SdpaNumerics &numerics, const ScheduleHints &hints, const Score &score,
                             Expr probabilities) {
    const int tile = hints.rows_per_tile, kv_block = numerics.kv_block;
    Builder build = query_rows(in, numerics, hints, score);
    SdpaStages &s = build.s;
    Var r = s.r, k = s.k, c = s.c, i = s.i, t = s.t, h = s.h, b = s.b, j("j");
    WeightsStages w;
    build.prepare();
    build.intervals();
    build.queries();

    // Scores are kept as bits because of -inf; sums mean nothing for them.
    const Type bits = UInt(numerics.accumulator.bits());
    const Expr zero = build.value_of(0);
    const Expr masked_weight = reinterpret(
        numerics.accumulator, select(probabilities, reinterpret(bits, zero), minus_infinity_bits(numerics.accumulator)));
    w.weight = Func("weight");
    w.kv_block = Func("kv_block");
    w.weight(r, j, t, h, b) = undef(numerics.accumulator);
    w.kv_block(r, c, t, h, b) = Tuple(lowest_score(numerics.accumulator), zero);
    auto take = [&](KvBlockStages &p, WeightsStages::KvBlock &taken, const std::string &suffix, bool masked) {
        p = build.scores(suffix, masked);
        build.row_max(p, suffix, masked);
        const Expr score_value = p.score(r, k, c, t, h, b);
        const Expr weight = reinterpret(bits, build.softmax.p(score_value, p.row_max(r, c, t, h, b)));
        const Expr raw = reinterpret(bits, build.softmax.natural(score_value));
        Expr made = reinterpret(numerics.accumulator, select(probabilities, weight, raw));
        if (masked) {
            Expr kept = !is_masked(score_value);
            // Subblocks that no row of the tile sees are left out of a KV block's scores.
            if (tile) kept = build.seen_keys(c, k / numerics.kv_subblock * numerics.kv_subblock, numerics.kv_subblock) && kept;
            made = select(kept, made, masked_weight);
        }
        taken.made_weight = Func("made_weight" + suffix);
        taken.made_weight(r, k, c, t, h, b) = made;
        RDom pairs(0, kv_block, 0, build.kv_block_count(), "pair" + suffix);
        if (tile) build.keep_seen(pairs, pairs.y, !masked);
        taken.key = pairs.x, taken.kv_block = pairs.y;
        const Expr of_pair = taken.made_weight(r, pairs.x, pairs.y, t, h, b), at = build.joined(pairs.y);
        w.weight(r, build.joined(pairs.y * kv_block + pairs.x), t, h, b) = of_pair;
        w.kv_block(r, at, t, h, b) = Tuple(p.row_max(r, pairs.y, t, h, b), w.kv_block(r, at, t, h, b)[1] + of_pair);
    };
    if (tile) take(s.full, w.full, "", false);
    take(s.partial, w.partial, tile ? "_partial" : "", true);
    if (tile) {
        RDom unseen(0, kv_block, 0, build.kv_block_count(), "unseen");
        unseen.where(!build.seen(unseen.y));
        w.unseen_key = unseen.x, w.unseen_block = unseen.y;
        w.weight(r, unseen.y * kv_block + unseen.x, t, h, b) = masked_weight;
    }
    auto of_kv_block = [&](int n) { return [&, n](Expr at) { return w.kv_block(r, at, t, h, b)[n]; }; };
    build.merge_sums(of_kv_block(0), of_kv_block(1));

    w.share = Func("share");
    const int block = std::max(hints.pair_block, 1);
    Expr sum = s.total_sum(r, t, h, b);
    w.share(r, c, t, h, b) = select(strict_float(sum == zero), zero, s.block_scale(r, c, t, h, b) / sum);
    auto value = [&](Expr j, Expr i) {
        Expr r = tile ? i % tile : i, t = tile ? i / tile : Expr(0);
        Expr x = w.weight(r, j, t, h, b);
        // KV block of the first key of the transposed block: so Halide sees that a transposed block lies in one KV block.
        Expr c = j / block * block / kv_block;
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
