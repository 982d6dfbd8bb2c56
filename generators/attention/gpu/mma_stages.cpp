// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/mma_stages.h"
#include "generators/attention/gpu/online_softmax.h"

namespace attune {
using namespace Halide;

namespace {

struct FragmentBuilder {
    const RawInputs &raw;
    const FragmentShape &shape;
    const FragmentInstructions &does;
    Builder &build;
    FragmentStages &stages;
    int part = 0;  // keys of a part; 0: they are in one

    Expr parts() const { return (build.in.keys + part - 1) / part; }
    Span of_part(const Builder &by) const {
        if (!part) return {};
        const int chunks = part / by.numerics.chunk;
        const Expr p = build.s.t % parts();
        return {p * chunks, (p + 1) * chunks};
    }

    const RunningPart held{shape};

    // What the lane of a slot has of its running softmax; `at` says where for each row of a lane.
    Expr of_slot(const Expr &r, const std::function<int(int row)> &at) const {
        const SdpaStages &s = build.s;
        std::vector<Expr> rows;
        for (int row = 0; row < shape.lane_rows; row++)
            rows.push_back(stages.running(r / shape.lane_rows, s.t, s.h, s.b)[static_cast<std::size_t>(at(row))]);
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
        stages.queries = own_words("query_words", shape, stages.v, does, raw.query, [&](const Expr &slot) -> RowOfInput {
            const Rows row = build.rows(slot, s.t, s.h);
            return {row.query, row.query_head};
        });
    }

    // Keys and values of a chunk, for all lanes of a block.
    void stage(FragmentPartials &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var w = stages.v.w, k = s.k, side = stages.v.side, c = s.c, t = s.t, h = s.h, b = s.b;
        const Expr head = build.rows(0, t, h).key_head, last = build.in.keys - 1, j = c * shape.chunk + k;
        const Expr key = masked ? min(j, last) : unsafe_promise_clamped(j, 0, last);
        // What lies outside the tile's keys may be no number: it is left out here, once for all rows.
        const Expr given = masked ? select(side == 0 || within_tile(j, build), bytes_together, 0) : Expr(bytes_together);
        f.rows = Func("rows" + suffix);
        f.rows(w, k, side, c, t, h, b) = does.copied(select(side == 0, raw.key.address(w * shape.in_word, key, head, b),
                                                            raw.value.address(w * shape.in_word, key, head, b)),
                                                     given);
        f.key_words = chunk_words("key_words" + suffix, shape, stages.v, does, f.rows, 0, false, {c, t, h, b});
        f.value_words = chunk_words("value_words" + suffix, shape, stages.v, does, f.rows, 1, true, {c, t, h, b});
    }

    void scores(FragmentPartials &f, const std::string &suffix, bool masked) const {
        const SdpaStages &s = build.s;
        Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        f.product = product_of("product" + suffix, shape, stages.v, does, stages.queries, f.key_words, {c, t, h, b});
        f.p.score = Func("score" + suffix);
        f.p.score(r, k, c, t, h, b) = element_of_product(f.product.sum, shape, r, k, {c, t, h, b});
        f.p.logit = Func("logit" + suffix);
        build.finish_scores(f.p, suffix, masked);

        RDom max_key(0, shape.lane_keys(), "max_keys" + suffix);
        f.max_key = max_key.x;
        f.lane_max = Func("lane_max" + suffix), f.row_max = Func("row_max" + suffix);
        f.lane_max(r, c, t, h, b) = lowest_score(Float(32));
        f.lane_max(r, c, t, h, b) = does.max(f.lane_max(r, c, t, h, b), f.p.logit(r, max_key, c, t, h, b));
        f.row_max(r, c, t, h, b) = over_row(f.lane_max(r, c, t, h, b), does.max);
    }

    // The running softmax takes up a chunk, 16 keys after the other: weights are relative to the maximum up to this chunk, so
    // products of matrices add to what there is.
    void take_up(FragmentPartials &f, const std::string &suffix, bool masked) const {
        Var l = stages.v.l, t = build.s.t, h = build.s.h, b = build.s.b;
        RDom at(0, shape.chunk / terms_together, 0, build.chunk_count(), "running" + suffix);
        f.running_keys = at.x, f.running_chunk = at.y;
        const Expr step = at.x, chunk = at.y;
        take_chunks(at, chunk, build, masked ? SeenChunks::part : SeenChunks::whole, of_part(build));
        auto before = [&](int n) -> Expr { return stages.running(l, t, h, b)[static_cast<std::size_t>(n)]; };
        std::vector<Expr> after(static_cast<std::size_t>(held.size()));
        auto set = [&](int n, const Expr &x) { after[static_cast<std::size_t>(n)] = x; };
        for (int product = 0; product < shape.products(); product++) {
            std::array<Expr, 2> rescale;
            std::array<std::array<Expr, 4>, 2> weight;
            for (int n = 0; n < 2; n++) {
                const int row = product * 2 + n;
                const Expr r = l * shape.lane_rows + row, old_max = before(held.max(row));
                const Expr new_max = does.max(old_max, f.row_max(r, chunk, t, h, b));
                rescale[n] = select(step == 0, does.exp2(build.softmax.base2(old_max - new_max)), 1.0f);
                Expr sum = before(held.sum(row)) * rescale[n];
                for (int k = 0; k < 4; k++) {
                    const Expr logit = f.p.logit(r, step * 4 + k, chunk, t, h, b);
                    weight[n][k] = does.exp2(build.softmax.base2(logit - new_max));
                    if (masked) weight[n][k] = select(is_masked(logit), 0.0f, weight[n][k]);
                    // Of the weights as they are before they are rounded: lse is more accurate than those.
                    sum += weight[n][k];
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
                            f.value_words(group % 2 * 2 + e, l, group / 2, step * shape.together() + j, chunk, t, h, b));
                std::array<Expr, 4> mixed;
                for (int e = 0; e < 4; e++) mixed[e] = before(held.weighted(product, group, e)) * rescale[e / 2];
                for (int e = 0; e < 4; e++) set(held.weighted(product, group, e), does.element(weights, values, mixed, e));
            }
        }
        stages.running(l, t, h, b) = Tuple(after);
    }

    Expr sink_of(const Expr &head) const {
        return build.in.sinks.defined() && !part ? build.sink(head) : lowest_score(Float(32));
    }

    void run() {
        Var l = stages.v.l, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.running = Func("running");
        std::vector<Expr> start(static_cast<std::size_t>(held.sum(0)), 0.0f);
        // A sink is one more score, which has no value; the first lane of a row has it in its sum. Of parts it is the merge's.
        const Expr lowest = lowest_score(Float(32)), sink = sink_of(build.rows(0, t, h).query_head);
        const auto rows = static_cast<std::size_t>(shape.lane_rows);
        start.insert(start.end(), rows, select(strict_float(sink == lowest) || l % lanes_of_row != 0, 0.0f, sink_sum(sink)));
        start.insert(start.end(), rows, sink);
        stages.running(l, t, h, b) = Tuple(start);
        for (auto [f, masked] : {std::pair(&stages.full, false), std::pair(&stages.part, true)}) {
            const std::string suffix = masked ? "_part" : "";
            stage(*f, suffix, masked);
            scores(*f, suffix, masked);
            take_up(*f, suffix, masked);
        }
    }

    // Products of f32 make a NaN of a score that is infinite: its row's sum of weights is computed once more, too.
    bool sums_again() const { return shape.in_word == 1; }

    // A row is spoilt whose weighted values are no numbers; where its sum is no number either they need not be.
    void settle_rows(Builder &by_key) {
        const SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        const Rows row = by_key.rows(r, t, h);
        SdpaPartials &p = stages.of_key;
        RDom channel(0, shape.channels, "channel_of_key");
        p.score = Func("score_of_key");
        p.channel = channel.x;
        p.score(r, k, c, t, h, b) = 0.0f;
        p.score(r, k, c, t, h, b) += build.softmax.qk(in.query(channel, row.query, row.query_head, b),
                                                      in.key(channel, by_key.key_at(k, false), row.key_head, b), channel);
        p.logit = Func("logit_of_key");
        by_key.finish_scores(p, "_of_key", true);

        const Expr sum = stages.sum(r, t, h, b), max = max_of_slot(r);
        std::vector<Expr> totals, begin(static_cast<std::size_t>(shape.lane_channels()), 0.0f);
        Expr spoilt = Internal::const_false();
        for (int j = 0; j < shape.lane_channels(); j++) {
            totals.push_back(of_slot(r, [&](int row) { return held.weighted(row, j); }));
            spoilt = spoilt || is_no_number(totals.back());
        }
        if (sums_again()) {
            const Expr sink = sink_of(row.query_head);
            totals.push_back(sum);
            begin.push_back(
                select(strict_float(sink == lowest_score(Float(32))), 0.0f, does.exp2(build.softmax.base2(sink - max))));
        } else {
            spoilt = spoilt && !is_no_number(sum);
        }
        const auto terms = [&](const Expr &key, const Expr &) {
            const Expr logit = p.logit(r, 0, key, t, h, b), masked = is_masked(logit);
            // The maximum may be without this score; an infinite one then makes a NaN, as everywhere.
            const Expr weight = select(masked, 0.0f, does.exp2(build.softmax.base2(logit - does.max(max, logit))));
            std::vector<Expr> each;
            for (int j = 0; j < shape.lane_channels(); j++) {
                const Expr channel = element_of_lane(j, r / shape.lane_rows);
                each.push_back(weight * select(masked, 0.0f, in.value(channel, min(key, in.keys - 1), row.key_head, b)));
            }
            if (sums_again()) each.push_back(weight);
            return each;
        };
        stages.settled =
            settle(stages.v,
                   {.spoilt = spoilt,
                    .totals = totals,
                    .begin = begin,
                    .met_rows = in.keys,
                    .heads = {},
                    .take = [&](RDom &at, const Expr &key) { take_chunks(at, key, by_key, SeenChunks::all, of_part(by_key)); },
                    .terms = terms});
    }

    // Of the row of a slot in a tile.
    Expr mixed(const Expr &element, const Expr &slot, const Expr &tile) const {
        FuncRef own = stages.settled.settled(slot, tile, build.s.h, build.s.b);
        std::vector<Expr> all;
        for (int n = 0; n < shape.lane_channels(); n++) all.push_back(own[n]);
        return mux(element, all);
    }
    Expr sum(const Expr &slot, const Expr &tile) const {
        const Var h = build.s.h, b = build.s.b;
        return sums_again() ? Expr(stages.settled.settled(slot, tile, h, b)[shape.lane_channels()])
                            : Expr(stages.sum(slot, tile, h, b));
    }
    void row_totals(Builder &by_key) {
        Var r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.sum = Func("row_sum"), stages.max = Func("row_max_of_all");
        stages.sum(r, t, h, b) =
            over_row(of_slot(r, [&](int row) { return held.sum(row); }), [](const Expr &x, const Expr &y) { return x + y; });
        stages.max(r, t, h, b) = max_of_slot(r);
        settle_rows(by_key);
    }

    // The parts of a row as they are, and their merge.
    void finish_parts(Builder &by_key, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        Var h = s.h, b = s.b, row("row");
        row_totals(by_key);
        const Expr rows = build.in.query_heads / build.in.key_heads * build.in.queries;
        RDom at(0, shape.lane_channels(), 0, shape.slots(), 0, (rows + shape.rows - 1) / shape.rows * parts(), "state");
        stages.element = at.x, stages.slot = at.y, stages.tile = at.z;
        const Expr own = row_of_slot(shape, at.y, at.z / parts());
        at.where(unsolved(own < rows));
        stages.state = Func("state_stage");
        stages.state(s.d, row, h, b) = Tuple(undef<float>(), undef<float>(), undef<float>());
        stages.state(element_of_lane(at.x, at.y / shape.lane_rows), min(own, rows - 1) * parts() + at.z % parts(), h, b) =
            Tuple(mixed(at.x, at.y, at.z), sum(at.y, at.z), stages.max(at.y, at.z, h, b));
        stages.merged = merge_parts(build, stages.state, part, does.reciprocal, stored);
    }

    void finish(Builder &by_key, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        row_totals(by_key);
        stages.lse = Func("lse");
        stages.lse(r, t, h, b) = running_lse(build, stages.max(r, t, h, b), sum(r, t));

        const Expr tiles = (in.queries + shape.rows - 1) / shape.rows;
        RDom at(0, shape.lane_channels(), 0, shape.slots(), 0, tiles, "out");
        stages.element = at.x, stages.slot = at.y, stages.tile = at.z;
        // The last tile first: under a diagonal it sees most keys, and what begins last should not be the longest.
        const Expr tile = tiles - 1 - at.z, query = row_of_slot(shape, at.y, tile);
        at.where(unsolved(query < in.queries));
        const Expr weights = sum(at.y, tile);
        const Expr result = stored(select(is_empty_sum(weights), 0.0f, mixed(at.x, at.y, tile) * does.reciprocal(weights)));
        s.out = Func("out_stage");
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(element_of_lane(at.x, at.y / shape.lane_rows), unfollowed(does, min(query, in.queries - 1), in.queries), h, b) =
            Tuple(result, stages.lse(at.y, tile, h, b));
    }
};

}  // namespace

namespace {

FragmentStages stages_of(const SdpaInputs &in, const RawInputs &raw, const FragmentShape &fragment, int part,
                         const decltype(Builder::rows) &rows, const decltype(Builder::queries_of) &queries_of,
                         const Score &score, const FragmentInstructions &does, const std::function<Expr(Expr)> &stored) {
    FragmentStages stages;
    const SdpaNumerics numerics{Float(32), fragment.chunk, fragment.chunk};
    const ScheduleHints hints{.rows_per_tile = fragment.rows};
    Builder build{in, numerics, hints, score, rows, queries_of};
    build.share = {fragment.lane_keys(), [fragment, does, c = build.s.c](Expr k, Expr r) {
                       // Or the distance of each key to the end of each row would be kept in registers.
                       return unfollowed(does, element_of_lane(k, r / fragment.lane_rows), fragment.chunk, c);
                   }};
    FragmentBuilder fragments{raw, fragment, does, build, stages, part};
    build.prepare();
    build.intervals();
    fragments.query();
    fragments.run();
    // The same rows, with chunks of one key.
    const SdpaNumerics numerics_of_key{Float(32), 1, 1};
    const auto unfollowed_rows = [&](const Expr &r, const Expr &t, const Expr &h) {
        Rows row = rows(r, t, h);
        row.query = unfollowed(does, row.query, in.queries);
        return row;
    };
    Builder by_key{in, numerics_of_key, hints, score, unfollowed_rows, queries_of, build.s};
    by_key.intervals();
    part ? fragments.finish_parts(by_key, stored) : fragments.finish(by_key, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace

FragmentStages fragment_stages(const SdpaInputs &in, const RawInputs &raw, const FragmentShape &fragment, const Score &score,
                               const FragmentInstructions &does, const std::function<Expr(Expr)> &stored) {
    const Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const auto rows = [=](Expr r, Expr t, Expr h) { return Rows{min(row_of_slot(fragment, r, t), queries - 1), h, h / group}; };
    const auto queries_of = [=](Expr t) {
        const Expr first = t * fragment.rows;
        return std::pair(first, min(first + fragment.rows, queries) - 1);
    };
    return stages_of(in, raw, fragment, 0, rows, queries_of, score, does, stored);
}

FragmentStages fragment_split_stages(const SdpaInputs &in, const RawInputs &raw, const FragmentShape &fragment, int part,
                                     const Score &score, const FragmentInstructions &does,
                                     const std::function<Expr(Expr)> &stored) {
    const Expr group = in.query_heads / in.key_heads, queries = in.queries, parts = (in.keys + part - 1) / part;
    const auto rows = [=](Expr r, Expr t, Expr h) {
        const Expr n = min(row_of_slot(fragment, r, t / parts), group * queries - 1);
        return Rows{n % queries, h * group + n / queries, h};
    };
    const auto queries_of = [=](Expr) { return std::pair(Expr(0), queries - 1); };
    return stages_of(in, raw, fragment, part, rows, queries_of, score, does, stored);
}

}  // namespace attune
