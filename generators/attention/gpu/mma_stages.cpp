// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/mma_stages.h"
#include "generators/attention/gpu/online_softmax.h"

namespace attune {
using namespace Halide;

namespace {

struct MmaBuilder {
    const RawInputs &raw;
    const MmaShape &shape;
    const MmaInstructions &does;
    Builder &build;
    MmaStages &stages;
    int split_keys = 0;  // keys of a split; 0: all keys in one

    Expr splits() const { return (build.in.keys + split_keys - 1) / split_keys; }
    Span of_split(const Builder &by) const {
        if (!split_keys) return {};
        const int kv_blocks = split_keys / by.numerics.kv_block;
        const Expr p = build.s.t % splits();
        return {p * kv_blocks, (p + 1) * kv_blocks};
    }

    const OnlineState held{shape};

    // A value of the online softmax's state for a slot; `at` is its place for each row of a lane.
    Expr of_slot(const Expr &r, const std::function<int(int row)> &at) const {
        const SdpaStages &s = build.s;
        std::vector<Expr> rows;
        for (int row = 0; row < shape.lane_rows; row++)
            rows.push_back(stages.online_softmax(r / shape.lane_rows, s.t, s.h, s.b)[static_cast<std::size_t>(at(row))]);
        return mux(r % shape.lane_rows, rows);
    }
    Expr max_of_slot(const Expr &r) const {
        return of_slot(r, [&](int row) { return held.max(row); });
    }
    Expr over_row(Expr x, const std::function<Expr(Expr, Expr)> &combine) const {
        for (int bits = 1; bits < lanes_of_row; bits *= 2) x = combine(x, does.exchange(x, bits));
        return x;
    }

    void query() {
        const SdpaStages &s = build.s;
        stages.queries = resident_words("query_words", shape, stages.v, does, raw.query, [&](const Expr &slot) -> RowOfInput {
            const Rows row = build.rows(slot, s.t, s.h);
            return {row.query, row.query_head};
        });
    }

    // Keys and values of a KV block, for all lanes of a block.
    void stage(MmaBlockStages &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var w = stages.v.w, k = s.k, side = stages.v.side, c = s.c, t = s.t, h = s.h, b = s.b;
        const Expr head = build.rows(0, t, h).key_head, last = build.in.keys - 1, j = c * shape.kv_block + k;
        const Expr key = masked ? min(j, last) : unsafe_promise_clamped(j, 0, last);
        // Keys and values that the tile does not see may hold NaN: their words become 0 here, once for all rows.
        const Expr given = masked ? select(side == 0 || within_tile(j, build), bytes_together, 0) : Expr(bytes_together);
        f.rows = Func("rows" + suffix);
        f.rows(w, k, side, c, t, h, b) = does.copied(select(side == 0, raw.key.address(w * shape.in_word, key, head, b),
                                                            raw.value.address(w * shape.in_word, key, head, b)),
                                                     given);
        f.key_words = block_words("key_words" + suffix, shape, stages.v, does, f.rows, 0, false, {c, t, h, b});
        f.value_words = block_words("value_words" + suffix, shape, stages.v, does, f.rows, 1, true, {c, t, h, b});
    }

    void scores(MmaBlockStages &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        f.product = product_of("product" + suffix, shape, stages.v, does, stages.queries, f.key_words, {c, t, h, b});
        f.p.qk = Func("qk" + suffix);
        f.p.qk(r, k, c, t, h, b) = element_of_product(f.product.sum, shape, r, k, {c, t, h, b});
        f.p.score = Func("score" + suffix);
        build.finish_scores(f.p, suffix, masked);

        RDom max_key(0, shape.lane_keys(), "max_keys" + suffix);
        f.max_key = max_key.x;
        f.lane_max = Func("lane_max" + suffix), f.row_max = Func("row_max" + suffix);
        f.lane_max(r, c, t, h, b) = lowest_score(Float(32));
        f.lane_max(r, c, t, h, b) = does.max(f.lane_max(r, c, t, h, b), f.p.score(r, max_key, c, t, h, b));
        f.row_max(r, c, t, h, b) = over_row(f.lane_max(r, c, t, h, b), does.max);
    }

    // Update of the online softmax by a KV block, 16 keys after the other. Weights are relative to the maximum up to this KV
    // block, so that products of matrices add to the rescaled accumulator.
    void online_update(MmaBlockStages &f, const std::string &suffix, bool masked) const {
        Var l = stages.v.l, t = build.s.t, h = build.s.h, b = build.s.b;
        RDom at(0, shape.kv_block / terms_together, 0, build.kv_block_count(), "online_softmax" + suffix);
        f.online_keys = at.x, f.online_block = at.y;
        const Expr step = at.x, kv_block = at.y;
        take_kv_blocks(at, kv_block, build, masked ? SeenKvBlocks::partial : SeenKvBlocks::whole, of_split(build));
        auto before = [&](int n) -> Expr { return stages.online_softmax(l, t, h, b)[static_cast<std::size_t>(n)]; };
        std::vector<Expr> after(static_cast<std::size_t>(held.size()));
        auto set = [&](int n, const Expr &x) { after[static_cast<std::size_t>(n)] = x; };
        for (int product = 0; product < shape.products(); product++) {
            std::array<Expr, 2> rescale;
            std::array<std::array<Expr, 4>, 2> weight;
            for (int n = 0; n < 2; n++) {
                const int row = product * 2 + n;
                const Expr r = l * shape.lane_rows + row, old_max = before(held.max(row));
                const Expr new_max = does.max(old_max, f.row_max(r, kv_block, t, h, b));
                rescale[n] = select(step == 0, does.exp2(build.softmax.base2(old_max - new_max)), 1.0f);
                Expr sum = before(held.sum(row)) * rescale[n];
                for (int k = 0; k < 4; k++) {
                    const Expr score = f.p.score(r, step * 4 + k, kv_block, t, h, b);
                    weight[n][k] = does.exp2(build.softmax.base2(score - new_max));
                    if (masked) weight[n][k] = select(is_masked(score), 0.0f, weight[n][k]);
                    // Sum of the weights before they are rounded: lse is more accurate than rounded weights.
                    sum += weight[n][k];
                    if (const Expr factor = weight_factor(build, r, step * 4 + k, kv_block, !masked); factor.defined()) {
                        weight[n][k] *= factor;
                        if (masked) weight[n][k] = select(is_masked(score), 0.0f, weight[n][k]);
                    }
                }
                set(held.sum(row), sum), set(held.max(row), new_max);
            }
            std::vector<Expr> weights;
            for (int j = 0; j < shape.together(); j++)
                for (int e = 0; e < 4; e++) {
                    const Expr *first = &weight[e % 2][(j * 2 + e / 2) * shape.in_word];
                    weights.push_back(does.word({first, first + shape.in_word}));
                }
            for (int group = 0; group < shape.channels / 8; group++) {
                std::vector<Expr> values;
                for (int j = 0; j < shape.together(); j++)
                    for (int e = 0; e < 2; e++)
                        values.push_back(
                            f.value_words(group % 2 * 2 + e, l, group / 2, step * shape.together() + j, kv_block, t, h, b));
                std::array<Expr, 4> pv;
                for (int e = 0; e < 4; e++) pv[e] = before(held.weighted(product, group, e)) * rescale[e / 2];
                for (int e = 0; e < 4; e++) set(held.weighted(product, group, e), does.element(weights, values, pv, e));
            }
        }
        stages.online_softmax(l, t, h, b) = Tuple(after);
    }

    Expr sink_of(const Expr &head) const {
        return build.in.sinks.defined() && !split_keys ? build.sink(head) : lowest_score(Float(32));
    }

    void run() {
        Var l = stages.v.l, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.online_softmax = Func("online_softmax");
        std::vector<Expr> start(static_cast<std::size_t>(held.sum(0)), 0.0f);
        // A sink is one more score without a value, in the sum of a row's first lane. With splits the merge adds it.
        const Expr lowest = lowest_score(Float(32)), sink = sink_of(build.rows(0, t, h).query_head);
        const auto rows = static_cast<std::size_t>(shape.lane_rows);
        start.insert(start.end(), rows, select(strict_float(sink == lowest) || l % lanes_of_row != 0, 0.0f, sink_sum(sink)));
        start.insert(start.end(), rows, sink);
        stages.online_softmax(l, t, h, b) = Tuple(start);
        for (auto [f, masked] : {std::pair(&stages.full, false), std::pair(&stages.partial, true)}) {
            const std::string suffix = masked ? "_partial" : "";
            stage(*f, suffix, masked);
            scores(*f, suffix, masked);
            online_update(*f, suffix, masked);
        }
    }

    // f32 products give NaN for an infinite score: the row's sum of weights is then recomputed, too.
    bool recomputes_sums() const { return shape.in_word == 1; }

    // A row is non-finite if its weighted values are NaN; a row whose sum is NaN as well need not be recomputed.
    void recompute_nonfinite_rows(Builder &by_key) {
        const SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        const Rows row = by_key.rows(r, t, h);
        KvBlockStages &p = stages.of_key;
        RDom channel(0, shape.channels, "channel_of_key");
        p.qk = Func("qk_of_key");
        p.channel = channel.x;
        p.qk(r, k, c, t, h, b) = 0.0f;
        p.qk(r, k, c, t, h, b) += build.softmax.qk(in.query(channel, row.query, row.query_head, b),
                                                   in.key(channel, by_key.key_at(k, false), row.key_head, b), channel);
        p.score = Func("score_of_key");
        by_key.finish_scores(p, "_of_key", true);

        const Expr sum = stages.sum(r, t, h, b), max = max_of_slot(r);
        std::vector<Expr> totals, begin(static_cast<std::size_t>(shape.lane_channels()), 0.0f);
        Expr nonfinite = Internal::const_false();
        for (int j = 0; j < shape.lane_channels(); j++) {
            totals.push_back(of_slot(r, [&](int row) { return held.weighted(row, j); }));
            nonfinite = nonfinite || is_no_number(totals.back());
        }
        if (recomputes_sums()) {
            const Expr sink = sink_of(row.query_head);
            totals.push_back(sum);
            begin.push_back(
                select(strict_float(sink == lowest_score(Float(32))), 0.0f, does.exp2(build.softmax.base2(sink - max))));
        } else {
            nonfinite = nonfinite && !is_no_number(sum);
        }
        const auto terms = [&](const Expr &key, const Expr &) {
            const Expr score = p.score(r, 0, key, t, h, b), masked = is_masked(score);
            // The maximum may leave out this score; an infinite score then gives NaN, as everywhere.
            const Expr weight = select(masked, 0.0f, does.exp2(build.softmax.base2(score - does.max(max, score))));
            const Expr factor = weight_factor(by_key, r, 0, key, false);
            const Expr of_value = factor.defined() ? select(masked, 0.0f, weight * factor) : weight;
            std::vector<Expr> each;
            for (int j = 0; j < shape.lane_channels(); j++) {
                const Expr channel = element_of_lane(j, r / shape.lane_rows);
                each.push_back(of_value * select(masked, 0.0f, in.value(channel, min(key, in.keys - 1), row.key_head, b)));
            }
            if (recomputes_sums()) each.push_back(weight);
            return each;
        };
        stages.recomputed = recompute_nonfinite(
            stages.v,
            {.nonfinite = nonfinite,
             .totals = totals,
             .begin = begin,
             .streamed_rows = in.keys,
             .heads = {},
             .take = [&](RDom &at, const Expr &key) { take_kv_blocks(at, key, by_key, SeenKvBlocks::all, of_split(by_key)); },
             .terms = terms});
    }

    // Weighted values of the row of a slot in a tile.
    Expr pv(const Expr &element, const Expr &slot, const Expr &tile) const {
        FuncRef totals = stages.recomputed.totals(slot, tile, build.s.h, build.s.b);
        std::vector<Expr> all;
        for (int n = 0; n < shape.lane_channels(); n++) all.push_back(totals[n]);
        return mux(element, all);
    }
    Expr sum(const Expr &slot, const Expr &tile) const {
        const Var h = build.s.h, b = build.s.b;
        return recomputes_sums() ? Expr(stages.recomputed.totals(slot, tile, h, b)[shape.lane_channels()])
                                 : Expr(stages.sum(slot, tile, h, b));
    }
    void row_totals(Builder &by_key) {
        Var r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.sum = Func("row_sum"), stages.max = Func("row_max_of_all");
        stages.sum(r, t, h, b) =
            over_row(of_slot(r, [&](int row) { return held.sum(row); }), [](const Expr &x, const Expr &y) { return x + y; });
        stages.max(r, t, h, b) = max_of_slot(r);
        recompute_nonfinite_rows(by_key);
    }

    // The states of a row's splits, and their merge.
    void finish_splits(Builder &by_key, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        Var h = s.h, b = s.b, row("row");
        row_totals(by_key);
        const Expr rows = build.in.query_heads / build.in.key_heads * build.in.queries;
        RDom at(0, shape.lane_channels(), 0, shape.slots(), 0, (rows + shape.rows - 1) / shape.rows * splits(), "state");
        stages.element = at.x, stages.slot = at.y, stages.tile = at.z;
        const Expr row_at = row_of_slot(shape, at.y, at.z / splits());
        at.where(unsolved(row_at < rows));
        stages.state = Func("state_stage");
        stages.state(s.d, row, h, b) = Tuple(undef<float>(), undef<float>(), undef<float>());
        stages.state(element_of_lane(at.x, at.y / shape.lane_rows), min(row_at, rows - 1) * splits() + at.z % splits(), h, b) =
            Tuple(pv(at.x, at.y, at.z), sum(at.y, at.z), stages.max(at.y, at.z, h, b));
        stages.merged = merge_splits(build, stages.state, split_keys, does.reciprocal, stored);
    }

    void finish(Builder &by_key, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        row_totals(by_key);
        stages.lse = Func("lse");
        stages.lse(r, t, h, b) = online_lse(build, stages.max(r, t, h, b), sum(r, t));

        const Expr tiles = (in.queries + shape.rows - 1) / shape.rows;
        RDom at(0, shape.lane_channels(), 0, shape.slots(), 0, tiles, "out");
        stages.element = at.x, stages.slot = at.y, stages.tile = at.z;
        // The last tile first: under a diagonal it sees most keys, and the longest task should not begin last.
        const Expr tile = tiles - 1 - at.z, query = row_of_slot(shape, at.y, tile);
        at.where(unsolved(query < in.queries));
        const Expr weights = sum(at.y, tile);
        const Expr result = stored(select(is_empty_sum(weights), 0.0f, pv(at.x, at.y, tile) * does.reciprocal(weights)));
        s.out = Func("out_stage");
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(element_of_lane(at.x, at.y / shape.lane_rows), unfollowed(does, min(query, in.queries - 1), in.queries), h, b) =
            Tuple(result, stages.lse(at.y, tile, h, b));
    }
};

}  // namespace

namespace {

MmaStages stages_of(const SdpaInputs &in, const RawInputs &raw, const MmaShape &shape, int split_keys,
                    const decltype(Builder::rows) &rows, const decltype(Builder::queries_of) &queries_of, const Score &score,
                    const MmaInstructions &does, const std::function<Expr(Expr)> &stored) {
    MmaStages stages;
    const SdpaNumerics numerics{Float(32), shape.kv_block, shape.kv_block};
    const ScheduleHints hints{.rows_per_tile = shape.rows};
    Builder build{in, numerics, hints, score, rows, queries_of};
    build.share = {shape.lane_keys(), [shape, does, c = build.s.c](Expr k, Expr r) {
                       // Otherwise the distance of each key to the end of each row would be kept in registers.
                       return unfollowed(does, element_of_lane(k, r / shape.lane_rows), shape.kv_block, c);
                   }};
    MmaBuilder mma{raw, shape, does, build, stages, split_keys};
    build.prepare();
    build.intervals();
    mma.query();
    mma.run();
    // The same rows, with KV blocks of one key.
    const SdpaNumerics numerics_of_key{Float(32), 1, 1};
    const auto unfollowed_rows = [&](const Expr &r, const Expr &t, const Expr &h) {
        Rows row = rows(r, t, h);
        row.query = unfollowed(does, row.query, in.queries);
        return row;
    };
    Builder by_key{in, numerics_of_key, hints, score, unfollowed_rows, queries_of, build.s};
    by_key.intervals();
    split_keys ? mma.finish_splits(by_key, stored) : mma.finish(by_key, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace

MmaStages mma_stages(const SdpaInputs &in, const RawInputs &raw, const MmaShape &shape, const Score &score,
                     const MmaInstructions &does, const std::function<Expr(Expr)> &stored) {
    const Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const auto rows = [=](Expr r, Expr t, Expr h) { return Rows{min(row_of_slot(shape, r, t), queries - 1), h, h / group}; };
    const auto queries_of = [=](Expr t) {
        const Expr first = t * shape.rows;
        return std::pair(first, min(first + shape.rows, queries) - 1);
    };
    return stages_of(in, raw, shape, 0, rows, queries_of, score, does, stored);
}

MmaStages mma_split_stages(const SdpaInputs &in, const RawInputs &raw, const MmaShape &shape, int split_keys,
                           const Score &score, const MmaInstructions &does, const std::function<Expr(Expr)> &stored) {
    const Expr group = in.query_heads / in.key_heads, queries = in.queries, splits = (in.keys + split_keys - 1) / split_keys;
    const auto rows = [=](Expr r, Expr t, Expr h) {
        const Expr n = min(row_of_slot(shape, r, t / splits), group * queries - 1);
        return Rows{n % queries, h * group + n / queries, h};
    };
    const auto queries_of = [=](Expr) { return std::pair(Expr(0), queries - 1); };
    return stages_of(in, raw, shape, split_keys, rows, queries_of, score, does, stored);
}

}  // namespace attune
