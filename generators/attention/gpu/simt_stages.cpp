// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/simt_stages.h"
#include "generators/attention/gpu/online_softmax.h"

namespace attune {
using namespace Halide;

namespace {

struct SimtBuilder {
    const SimtShape &lanes;
    const SimtInstructions &does;
    Builder &build;
    SimtStages &stages;
    int split_keys = 0;  // keys of a split; 0: all keys in one

    // A lane's state of the online softmax.
    FuncRef state_of(const Expr &r, const Expr &t, const Expr &p) const {
        const Var h = build.s.h, b = build.s.b;
        return split_keys ? stages.online_softmax(r, t, p, h, b) : stages.online_softmax(r, t, h, b);
    }
    Expr kv_blocks() const { return split_keys ? split_keys / build.numerics.kv_block : build.kv_block_count(); }

    Expr channel(Expr j, Expr t) const { return channel_of_lane(lanes, j, t); }
    Expr within(Expr channel, Expr channels, const std::function<Expr(Expr)> &read) const {
        return within_head(lanes, channel, channels, read);
    }

    void query() {
        Var j = stages.j, r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        const Rows row = build.rows(r, t, h);
        stages.query = Func("lane_query");
        stages.query(j, r, t, h, b) =
            within(channel(j, t), build.in.head_dim, [&](Expr d) { return build.in.query(d, row.query, row.query_head, b); });
    }

    SimtBlockStages block_stages(const std::string &suffix, bool masked) {
        const SdpaInputs &in = build.in;
        const SdpaStages &s = build.s;
        Var j = stages.j, r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        SimtBlockStages l;
        KvBlockStages &p = l.p;
        Expr key_head = build.rows(r, t, h).key_head, key = build.key_at(k, !masked);
        l.key = Func("lane_key" + suffix), l.value = Func("lane_value" + suffix);
        l.key(j, k, c, t, h, b) = within(channel(j, t), in.head_dim, [&](Expr d) { return in.key(d, key, key_head, b); });
        l.value(j, k, c, t, h, b) = within(channel(j, t), in.value_dim, [&](Expr d) { return in.value(d, key, key_head, b); });

        RDom element(0, lanes.lane_channels(), "element" + suffix);
        l.channel = element.x;
        l.qk_share = Func("qk_share" + suffix);
        l.qk_share(r, k, c, t, h, b) = 0.0f;
        l.qk_share(r, k, c, t, h, b) +=
            build.softmax.qk(stages.query(element, r, t, h, b), l.key(element, k, c, t, h, b), channel(element, t));
        p.qk = Func("qk" + suffix);
        p.qk(r, k, c, t, h, b) = does.sum([&](Expr lane) { return l.qk_share(r, k, c, lane, h, b); }, t, lanes.channel_lanes);
        p.score = Func("score" + suffix);
        build.finish_scores(p, suffix, masked);
        build.row_max(p, suffix, masked);
        return l;
    }

    // Update of the online softmax by a key of a KV block; the block's first key moves the maximum.
    void online_update(SimtBlockStages &l, const std::string &suffix, bool masked) {
        const SdpaStages &s = build.s;
        Var r = s.r, t = s.t, h = s.h, b = s.b;
        const int channels = lanes.lane_channels();
        RDom at(0, build.numerics.kv_block, 0, kv_blocks(), "online_softmax" + suffix);
        const Expr kv_block = split_keys ? stages.p * kv_blocks() + at.y : Expr(at.y);
        take_kv_blocks(at, kv_block, build, masked ? SeenKvBlocks::partial : SeenKvBlocks::whole);
        l.online_key = at.x, l.online_block = at.y;
        FuncRef before = state_of(r, t, stages.p);
        const Expr old_sum = before[channels], old_max = before[channels + 1], first = at.x == 0;
        const Expr new_max = select(first, does.max(old_max, l.p.row_max(r, kv_block, t, h, b)), old_max);
        const Expr rescale = select(first, does.exp2(build.softmax.base2(old_max - new_max)), 1.0f);
        const Expr score = l.p.score(r, at.x, kv_block, t, h, b);
        Expr weight = does.exp2(build.softmax.base2(score - new_max));
        if (masked) weight = select(is_masked(score), 0.0f, weight);
        Expr of_value = weight;
        if (const Expr factor = weight_factor(build, r, at.x, kv_block, !masked); factor.defined()) {
            of_value *= factor;
            if (masked) of_value = select(is_masked(score), 0.0f, of_value);
        }
        std::vector<Expr> after;
        for (int j = 0; j < channels; j++) {
            Expr value = l.value(j, at.x, kv_block, t, h, b);
            // A masked value may be NaN: it is replaced, not multiplied by 0.
            if (masked) value = select(is_masked(score), 0.0f, value);
            after.push_back(before[j] * rescale + of_value * value);
        }
        after.push_back(old_sum * rescale + weight);
        after.push_back(new_max);
        state_of(r, t, stages.p) = Tuple(after);
    }

    void run() {
        const SdpaInputs &in = build.in;
        Var r = build.s.r, t = build.s.t, h = build.s.h;
        stages.online_softmax = Func("online_softmax");
        std::vector<Expr> start(lanes.lane_channels(), 0.0f);
        // A sink is one more score without a value; with splits the merge adds it.
        const Expr lowest = lowest_score(Float(32));
        const Expr sink = in.sinks.defined() && !split_keys ? build.sink(build.rows(r, t, h).query_head) : lowest;
        start.push_back(select(strict_float(sink == lowest), 0.0f, sink_sum(sink)));
        start.push_back(sink);
        state_of(r, t, stages.p) = Tuple(start);
        online_update(stages.full, "", false);
        online_update(stages.partial, "_partial", true);
    }

    void all_stages() {
        build.prepare();
        build.intervals();
        query();
        stages.full = block_stages("", false);
        stages.partial = block_stages("_partial", true);
        run();
    }

    // Final state of the lanes, in the loops over lanes and their elements.
    struct Held {
        Expr lane, row, element, channel, sum, max;
    };
    Held held(const std::string &name, const Expr &rows, int tile_rows, const Expr &splits) {
        const int channels = lanes.lane_channels();
        const Expr row_lanes = (rows + tile_rows - 1) / tile_rows * (tile_rows / lanes.rows);
        std::vector<Range> loops = {{0, channels}, {0, lanes.rows}, {0, lanes.channel_lanes}, {0, row_lanes}};
        if (split_keys) loops.emplace_back(0, splits);
        RDom at(loops, name);
        stages.element = at[0], stages.row = at[1], stages.share = at[2], stages.row_lane = at[3];
        if (split_keys) stages.state_split = at[4];
        const Expr lane = at[3] * lanes.channel_lanes + at[2], row = at[3] * lanes.rows + at[1], of = channel(at[0], lane);
        at.where(unsolved(of < build.in.value_dim && row < rows));
        FuncRef state = state_of(at[1], lane, split_keys ? Expr(at[4]) : Expr());
        std::vector<Expr> pv;
        for (int n = 0; n < channels; n++) pv.push_back(state[n]);
        return {
            lane, min(row, rows - 1), mux(at[0], pv), min(of, build.in.value_dim - 1), state[channels], state[channels + 1]};
    }
    Expr normalised(const Expr &pv, const Expr &sum) const {
        return select(is_empty_sum(sum), 0.0f, pv * does.reciprocal(sum));
    }

    void finish(int tile_q, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        const int channels = lanes.lane_channels();
        FuncRef total = state_of(r, t, {});
        stages.lse = Func("lse");
        stages.lse(r, t, h, b) = online_lse(build, total[channels + 1], total[channels]);
        const Held at_end = held("out", build.in.queries, tile_q, {});
        s.out = Func("out_stage");
        const Expr result = stored(normalised(at_end.element, at_end.sum));
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(at_end.channel, at_end.row, h, b) = Tuple(result, stages.lse(stages.row, at_end.lane, h, b));
    }

    // The states of a row's splits, and their merge.
    void finish_splits(int tile_rows, const std::function<Expr(Expr)> &stored) {
        const SdpaInputs &in = build.in;
        SdpaStages &s = build.s;
        Var h = s.h, b = s.b, d = s.d, row("row");
        const Expr group = in.query_heads / in.key_heads, splits = (in.keys + split_keys - 1) / split_keys;
        const Held at_end = held("state", group * in.queries, tile_rows, splits);
        stages.state = Func("state_stage");
        stages.state(d, row, h, b) = Tuple(undef<float>(), undef<float>(), undef<float>());
        stages.state(at_end.channel, at_end.row * splits + stages.state_split, h, b) =
            Tuple(at_end.element, at_end.sum, at_end.max);
        stages.merged = merge_splits(build, stages.state, split_keys, does.reciprocal, stored);
    }
};

}  // namespace

Expr channel_of_lane(const SimtShape &lanes, const Expr &j, const Expr &t) {
    return t % lanes.channel_lanes * lanes.lane_channels() + j;
}
Expr within_head(const SimtShape &lanes, const Expr &channel, const Expr &channels, const std::function<Expr(Expr)> &read) {
    const auto known = as_const_int(channels);
    if (known && *known == lanes.channels) return read(channel);
    return select(channel < channels, read(min(channel, channels - 1)), 0.0f);
}

SimtStages simt_stages(const SdpaInputs &in, const SimtShape &lanes, int kv_block, int tile_q, const Score &score,
                       const SimtInstructions &does, const std::function<Expr(Expr)> &stored) {
    SimtStages stages;
    // One subblock: KV blocks are computed or left out whole. Steps read their tables untransposed.
    const SdpaNumerics numerics{Float(32), kv_block, kv_block};
    const ScheduleHints hints{.rows_per_tile = lanes.rows};
    const Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int group_rows = lanes.group_rows();
    Builder build{in,
                  numerics,
                  hints,
                  score,
                  [=](Expr r, Expr t, Expr h) {
                      return Rows{min(t / lanes.channel_lanes * lanes.rows + r, queries - 1), h, h / group};
                  },
                  [=](Expr t) {
                      Expr first = t / lanes.group * group_rows;
                      return std::pair(first, min(first + group_rows, queries) - 1);
                  }};
    SimtBuilder lane{lanes, does, build, stages};
    lane.all_stages();
    lane.finish(tile_q, stored);
    stages.s = build.s;
    return stages;
}

SimtStages simt_split_stages(const SdpaInputs &in, const SimtShape &lanes, int kv_block, int split_keys, int tile_rows,
                             const Score &score, const SimtInstructions &does, const std::function<Expr(Expr)> &stored) {
    SimtStages stages;
    const SdpaNumerics numerics{Float(32), kv_block, kv_block};
    const ScheduleHints hints{.rows_per_tile = lanes.rows};
    const Expr group = in.query_heads / in.key_heads, queries = in.queries, rows = group * queries;
    const int group_rows = lanes.group_rows();
    Builder build{in, numerics, hints, score,
                  [=](Expr r, Expr t, Expr h) {
                      Expr n = min(t / lanes.channel_lanes * lanes.rows + r, rows - 1);
                      return Rows{n % queries, h * group + n / queries, h};
                  },
                  // Lanes behind the last row have no queries.
                  [=](Expr t) { return std::pair(select(t / lanes.group * group_rows < rows, 0, queries), queries - 1); }};
    SimtBuilder lane{lanes, does, build, stages, split_keys};
    lane.all_stages();
    lane.finish_splits(tile_rows, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
