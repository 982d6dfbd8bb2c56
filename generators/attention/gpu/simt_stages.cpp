// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/simt_stages.h"
#include "generators/attention/gpu/online_softmax.h"

namespace attune {
using namespace Halide;

namespace {

struct LaneBuilder {
    const LaneShape &lanes;
    const LaneInstructions &does;
    Builder &build;
    LaneStages &stages;
    int part = 0;  // keys of a part; 0: they are in one

    // What a lane keeps while it walks its keys.
    FuncRef running(const Expr &r, const Expr &t, const Expr &p) const {
        const Var h = build.s.h, b = build.s.b;
        return part ? stages.running(r, t, p, h, b) : stages.running(r, t, h, b);
    }
    Expr chunks() const { return part ? part / build.numerics.chunk : build.chunk_count(); }

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

    LanePartials partials(const std::string &suffix, bool masked) {
        const SdpaInputs &in = build.in;
        const SdpaStages &s = build.s;
        Var j = stages.j, r = s.r, k = s.k, c = s.c, t = s.t, h = s.h, b = s.b;
        LanePartials l;
        SdpaPartials &p = l.p;
        Expr key_head = build.rows(r, t, h).key_head, key = build.key_at(k, !masked);
        l.key = Func("lane_key" + suffix), l.value = Func("lane_value" + suffix);
        l.key(j, k, c, t, h, b) = within(channel(j, t), in.head_dim, [&](Expr d) { return in.key(d, key, key_head, b); });
        l.value(j, k, c, t, h, b) = within(channel(j, t), in.value_dim, [&](Expr d) { return in.value(d, key, key_head, b); });

        RDom element(0, lanes.lane_channels(), "element" + suffix);
        l.channel = element.x;
        l.part_score = Func("part_score" + suffix);
        l.part_score(r, k, c, t, h, b) = 0.0f;
        l.part_score(r, k, c, t, h, b) +=
            build.softmax.qk(stages.query(element, r, t, h, b), l.key(element, k, c, t, h, b), channel(element, t));
        p.score = Func("score" + suffix);
        p.score(r, k, c, t, h, b) =
            does.sum([&](Expr lane) { return l.part_score(r, k, c, lane, h, b); }, t, lanes.channel_lanes);
        p.logit = Func("logit" + suffix);
        build.finish_scores(p, suffix, masked);
        build.row_max(p, suffix, masked);
        return l;
    }

    // The running softmax takes up a key of a chunk; the first of them moves its maximum.
    void take_up(LanePartials &l, const std::string &suffix, bool masked) {
        const SdpaStages &s = build.s;
        Var r = s.r, t = s.t, h = s.h, b = s.b;
        const int channels = lanes.lane_channels();
        RDom at(0, build.numerics.chunk, 0, chunks(), "running" + suffix);
        const Expr chunk = part ? stages.p * chunks() + at.y : Expr(at.y);
        take_chunks(at, chunk, build, masked ? SeenChunks::part : SeenChunks::whole);
        l.running_key = at.x, l.running_chunk = at.y;
        FuncRef before = running(r, t, stages.p);
        const Expr old_sum = before[channels], old_max = before[channels + 1], first = at.x == 0;
        const Expr new_max = select(first, does.max(old_max, l.p.row_max(r, chunk, t, h, b)), old_max);
        const Expr rescale = select(first, does.exp2(build.softmax.base2(old_max - new_max)), 1.0f);
        const Expr logit = l.p.logit(r, at.x, chunk, t, h, b);
        Expr weight = does.exp2(build.softmax.base2(logit - new_max));
        if (masked) weight = select(is_masked(logit), 0.0f, weight);
        std::vector<Expr> after;
        for (int j = 0; j < channels; j++) {
            Expr value = l.value(j, at.x, chunk, t, h, b);
            // A masked value may be NaN: it is replaced, not multiplied by 0.
            if (masked) value = select(is_masked(logit), 0.0f, value);
            after.push_back(before[j] * rescale + weight * value);
        }
        after.push_back(old_sum * rescale + weight);
        after.push_back(new_max);
        running(r, t, stages.p) = Tuple(after);
    }

    void run() {
        const SdpaInputs &in = build.in;
        Var r = build.s.r, t = build.s.t, h = build.s.h;
        stages.running = Func("running");
        std::vector<Expr> start(lanes.lane_channels(), 0.0f);
        // A sink is one more score, which has no value; of parts it is the merge's.
        const Expr lowest = lowest_score(Float(32));
        const Expr sink = in.sinks.defined() && !part ? build.sink(build.rows(r, t, h).query_head) : lowest;
        start.push_back(select(strict_float(sink == lowest), 0.0f, sink_sum(sink)));
        start.push_back(sink);
        running(r, t, stages.p) = Tuple(start);
        take_up(stages.full, "", false);
        take_up(stages.part, "_part", true);
    }

    void walk() {
        build.prepare();
        build.intervals();
        query();
        stages.full = partials("", false);
        stages.part = partials("_part", true);
        run();
    }

    // What lanes hold at the end, in the loops over them and their elements.
    struct Held {
        Expr lane, row, element, channel, sum, max;
    };
    Held held(const std::string &name, const Expr &rows, int tile_rows, const Expr &parts) {
        const int channels = lanes.lane_channels();
        const Expr row_lanes = (rows + tile_rows - 1) / tile_rows * (tile_rows / lanes.rows);
        std::vector<Range> loops = {{0, channels}, {0, lanes.rows}, {0, lanes.channel_lanes}, {0, row_lanes}};
        if (part) loops.emplace_back(0, parts);
        RDom at(loops, name);
        stages.element = at[0], stages.row = at[1], stages.share = at[2], stages.row_lane = at[3];
        if (part) stages.state_part = at[4];
        const Expr lane = at[3] * lanes.channel_lanes + at[2], row = at[3] * lanes.rows + at[1], of = channel(at[0], lane);
        at.where(unsolved(of < build.in.value_dim && row < rows));
        FuncRef own = running(at[1], lane, part ? Expr(at[4]) : Expr());
        std::vector<Expr> mixed;
        for (int n = 0; n < channels; n++) mixed.push_back(own[n]);
        return {lane, min(row, rows - 1), mux(at[0], mixed), min(of, build.in.value_dim - 1), own[channels], own[channels + 1]};
    }
    Expr normalised(const Expr &mixed, const Expr &sum) const {
        return select(is_empty_sum(sum), 0.0f, mixed * does.reciprocal(sum));
    }

    void finish(int tile_q, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        const int channels = lanes.lane_channels();
        FuncRef total = running(r, t, {});
        stages.lse = Func("lse");
        stages.lse(r, t, h, b) = running_lse(build, total[channels + 1], total[channels]);
        const Held own = held("out", build.in.queries, tile_q, {});
        s.out = Func("out_stage");
        const Expr result = stored(normalised(own.element, own.sum));
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(own.channel, own.row, h, b) = Tuple(result, stages.lse(stages.row, own.lane, h, b));
    }

    // The parts of a row as they are, and their merge.
    void finish_parts(int tile_rows, const std::function<Expr(Expr)> &stored) {
        const SdpaInputs &in = build.in;
        SdpaStages &s = build.s;
        Var h = s.h, b = s.b, d = s.d, row("row");
        const Expr group = in.query_heads / in.key_heads, parts = (in.keys + part - 1) / part;
        const Held own = held("state", group * in.queries, tile_rows, parts);
        stages.state = Func("state_stage");
        stages.state(d, row, h, b) = Tuple(undef<float>(), undef<float>(), undef<float>());
        stages.state(own.channel, own.row * parts + stages.state_part, h, b) = Tuple(own.element, own.sum, own.max);
        stages.merged = merge_parts(build, stages.state, part, does.reciprocal, stored);
    }
};

}  // namespace

Expr channel_of_lane(const LaneShape &lanes, const Expr &j, const Expr &t) {
    return t % lanes.channel_lanes * lanes.lane_channels() + j;
}
Expr within_head(const LaneShape &lanes, const Expr &channel, const Expr &channels, const std::function<Expr(Expr)> &read) {
    const auto known = as_const_int(channels);
    if (known && *known == lanes.channels) return read(channel);
    return select(channel < channels, read(min(channel, channels - 1)), 0.0f);
}

LaneStages lane_stages(const SdpaInputs &in, const LaneShape &lanes, int chunk, int tile_q, const Score &score,
                       const LaneInstructions &does, const std::function<Expr(Expr)> &stored) {
    LaneStages stages;
    // One block of keys: a chunk is what is computed or left out. Steps that read tables read them as they lie.
    const SdpaNumerics numerics{Float(32), chunk, chunk};
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
    LaneBuilder lane{lanes, does, build, stages};
    lane.walk();
    lane.finish(tile_q, stored);
    stages.s = build.s;
    return stages;
}

LaneStages lane_split_stages(const SdpaInputs &in, const LaneShape &lanes, int chunk, int part, int tile_rows,
                             const Score &score, const LaneInstructions &does, const std::function<Expr(Expr)> &stored) {
    LaneStages stages;
    const SdpaNumerics numerics{Float(32), chunk, chunk};
    const ScheduleHints hints{.rows_per_tile = lanes.rows};
    const Expr group = in.query_heads / in.key_heads, queries = in.queries, rows = group * queries;
    const int group_rows = lanes.group_rows();
    Builder build{in, numerics, hints, score,
                  [=](Expr r, Expr t, Expr h) {
                      Expr n = min(t / lanes.channel_lanes * lanes.rows + r, rows - 1);
                      return Rows{n % queries, h * group + n / queries, h};
                  },
                  // Of lanes behind the last row none.
                  [=](Expr t) { return std::pair(select(t / lanes.group * group_rows < rows, 0, queries), queries - 1); }};
    LaneBuilder lane{lanes, does, build, stages, part};
    lane.walk();
    lane.finish_parts(tile_rows, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
