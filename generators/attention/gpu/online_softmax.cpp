// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/online_softmax.h"
#include "generators/math/bits.h"
#include "generators/math/precise.h"
#include <map>

namespace attune {
using namespace Halide;

namespace {

// Mutator of without_calls().
class WithoutCalls : public Internal::IRMutator {
    using IRMutator::visit;
    Expr visit(const Internal::Call *op) override {
        if (op->call_type != Internal::Call::Halide) return IRMutator::visit(op);
        const Internal::Function f(op->func);
        std::map<std::string, Expr> args;
        for (std::size_t n = 0; n < op->args.size(); n++) args[f.args()[n]] = mutate(op->args[n]);
        return mutate(Internal::substitute(args, f.values()[static_cast<std::size_t>(op->value_index)]));
    }
};
Expr pairs_may_be_masked(const Score &score) {
    Expr any = Internal::const_false();
    for (const ScoreStep &step : score.steps)
        if (step.may_mask) any = any || (step.when.defined() ? step.when : Internal::const_true());
    return any;
}

}  // namespace

Expr without_calls(const Expr &e) { return WithoutCalls().mutate(e); }

Expr unsolved(const Expr &condition) { return (cast<int32_t>(condition) & 1) != 0; }

void take_kv_blocks(RDom &at, const Expr &kv_block, const TileKvBlocks &of, SeenKvBlocks which) {
    const auto &[seen, whole, by_steps] = of;
    const Expr before_end = kv_block < (which == SeenKvBlocks::whole ? min(seen.end, whole.end) : seen.end);
    // Where a step always masks, a KV block that is no variable has no other condition, and bounds would follow from this one.
    const bool bounds_loop = kv_block.as<Internal::Variable>() || !Internal::is_const_one(by_steps);
    at.where(without_calls(bounds_loop ? before_end : unsolved(before_end)));
    at.where(without_calls(unsolved(kv_block >= seen.begin)));
    if (which == SeenKvBlocks::whole) at.where(without_calls(unsolved(kv_block >= whole.begin && !by_steps)));
    if (which == SeenKvBlocks::partial)
        at.where(without_calls(unsolved(kv_block < whole.begin || kv_block >= whole.end || by_steps)));
}

TileKvBlocks kv_blocks_of(const Span &seen, const Span &whole, int kv_block, const Score &score) {
    return {{seen.begin / kv_block, (seen.end + kv_block - 1) / kv_block},
            {(whole.begin + kv_block - 1) / kv_block, whole.end / kv_block},
            pairs_may_be_masked(score)};
}

void take_kv_blocks(RDom &at, const Expr &kv_block, const Builder &build, SeenKvBlocks which, const Span &of_split) {
    TileKvBlocks of = kv_blocks_of(build.seen_by_some_row(), build.seen_by_all_rows(), build.numerics.kv_block, build.score);
    if (of_split.begin.defined()) of.seen = {max(of.seen.begin, of_split.begin), min(of.seen.end, of_split.end)};
    of.seen.end = select(build.queries_of(build.s.t).first < build.in.queries, of.seen.end, 0);
    take_kv_blocks(at, kv_block, of, which);
}

SdpaStages merge_splits(Builder &build, const Func &state, int split_keys, const std::function<Expr(Expr)> &reciprocal,
                        const std::function<Expr(Expr)> &stored) {
    SdpaStages &s = build.s;
    Var r = s.r, h = s.h, b = s.b, d = s.d, i = s.i;
    const Expr queries = build.in.queries, group = build.in.query_heads / build.in.key_heads;
    const Expr splits = (build.in.keys + split_keys - 1) / split_keys;
    SdpaInputs in = build.in;
    in.keys = (splits + splits_together - 1) / splits_together * splits_together * split_keys;
    // Splits as KV blocks of `split_keys` keys, in one tile of all queries.
    const SdpaNumerics numerics{Float(32), split_keys, split_keys};
    const ScheduleHints hints;
    Builder merge = query_rows(in, numerics, hints, build.score);
    auto of_split = [&](const Expr &channel, const Expr &at, std::size_t value, const Expr &otherwise) {
        const Expr row = (h % max(group, 1) * queries + r) * splits + min(at, splits - 1);
        return select(at < splits, state(channel, row, h / group, b)[value], otherwise);
    };
    merge.merge([&](Expr at) { return of_split(0, at, 2, lowest_score(Float(32))); },
                [&](Expr at) { return of_split(0, at, 1, 0.0f); }, [&](Expr at) { return of_split(d, at, 0, 0.0f); });
    const Expr sum = merge.s.total_sum(i, 0, h, b);
    s.out = Func("out_stage");
    s.out(d, i, h, b) = Tuple(stored(select(is_empty_sum(sum), 0.0f, merge.s.total_pv(i, d, 0, h, b) * reciprocal(sum))),
                              online_lse(build, merge.s.total_max(i, 0, h, b), sum));
    return merge.s;
}

Expr within_tile(const Expr &j, const Builder &build) {
    const Span keys = build.seen_by_some_row();
    return j >= keys.begin && j < keys.end;
}

Expr weight_factor(const Builder &build, const Expr &r, const Expr &k, const Expr &kv_block, bool inside) {
    if (!build.score.probability) return {};
    const Expr of_row = precise(build.score.probability(build.index(k, inside)));
    return cast<float>(Internal::substitute({{build.s.r.name(), r}, {build.s.c.name(), kv_block}}, of_row));
}

Expr sink_sum(const Expr &sink) {
    const Expr bits = bits_of(sink);
    return reinterpret(Float(32), select((bits & 0x7fffffff) > 0x7f800000, bits, bits_of(Expr(1.0f))));
}

Expr is_empty_sum(const Expr &sum) { return strict_float(sum == 0.0f); }

// -inf as a bit pattern, because arithmetic on -inf would be undefined.
Expr online_lse(const Builder &build, const Expr &max, const Expr &sum) {
    const Expr sum_bits = bits_of(sum);
    Expr lse = bits_of(build.softmax.natural(max) + log(sum));
    // log() of a NaN may be a number; the NaN is recognised by its bits, because code generation may assume that there is none.
    lse = select((sum_bits & 0x7fffffff) > 0x7f800000, sum_bits, lse);
    return reinterpret(Float(32), select(is_empty_sum(sum), minus_infinity_bits(Float(32)), lse));
}

}  // namespace attune
