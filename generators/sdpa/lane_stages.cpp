#include "generators/sdpa/lane_stages.h"
#include "generators/sdpa/running_chunks.h"

namespace attune {
using namespace Halide;

namespace {

struct LaneBuilder {
    const LaneShape &lanes;
    const LaneInstructions &does;
    Builder &build;
    LaneStages &stages;

    // Channel of element j of lane t.
    Expr channel(Expr j, Expr t) const { return t % lanes.channel_lanes * lanes.lane_channels() + j; }
    // A channel beyond the last counts as 0: heads may be smaller than what lanes hold.
    Expr within(Expr channel, Expr channels, const std::function<Expr(Expr)> &read) const {
        const auto known = as_const_int(channels);
        if (known && *known == lanes.channels) return read(channel);
        return select(channel < channels, read(min(channel, channels - 1)), 0.0f);
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
        l.part_score(r, k, c, t, h, b) += weighted_term(build.score.pair, stages.query(element, r, t, h, b),
                                                        l.key(element, k, c, t, h, b), channel(element, t));
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
        RDom at(0, build.shape.chunk, 0, (build.in.keys + build.shape.chunk - 1) / build.shape.chunk, "running" + suffix);
        const Expr chunk = at.y;
        take_chunks(at, chunk, build, masked ? SeenChunks::part : SeenChunks::whole);
        l.running_key = at.x, l.running_chunk = at.y;
        FuncRef before = stages.running(r, t, h, b);
        const Expr old_sum = before[channels], old_max = before[channels + 1], first = at.x == 0;
        const Expr new_max = select(first, does.max(old_max, l.p.row_max(r, chunk, t, h, b)), old_max);
        const Expr rescale = select(first, does.exp2(build.base2(old_max - new_max)), 1.0f);
        const Expr logit = l.p.logit(r, at.x, chunk, t, h, b);
        Expr weight = does.exp2(build.base2(logit - new_max));
        if (masked) weight = select(build.is_masked(logit), 0.0f, weight);
        std::vector<Expr> after;
        for (int j = 0; j < channels; j++) {
            Expr value = l.value(j, at.x, chunk, t, h, b);
            // A masked value may be NaN: it is replaced, not multiplied by 0.
            if (masked) value = select(build.is_masked(logit), 0.0f, value);
            after.push_back(before[j] * rescale + weight * value);
        }
        after.push_back(old_sum * rescale + weight);
        after.push_back(new_max);
        stages.running(r, t, h, b) = Tuple(after);
    }

    void run() {
        const SdpaInputs &in = build.in;
        Var r = build.s.r, t = build.s.t, h = build.s.h, b = build.s.b;
        stages.running = Func("running");
        std::vector<Expr> start(lanes.lane_channels(), 0.0f);
        // A sink is one more score, which has no value.
        const Expr lowest = build.value_of(lowest_max);
        const Expr sink = in.sinks.defined() ? build.sink(build.rows(r, t, h).query_head) : lowest;
        start.push_back(select(sink > lowest, 1.0f, 0.0f));
        start.push_back(sink);
        stages.running(r, t, h, b) = Tuple(start);
        take_up(stages.full, "", false);
        take_up(stages.part, "_part", true);
    }

    void finish(int tile_q, const std::function<Expr(Expr)> &stored) {
        SdpaStages &s = build.s;
        const SdpaInputs &in = build.in;
        Var r = s.r, t = s.t, h = s.h, b = s.b, d = s.d, i = s.i;
        const int channels = lanes.lane_channels();
        FuncRef total = stages.running(r, t, h, b);
        stages.lse = Func("lse");
        stages.lse(r, t, h, b) = running_lse(build, total[channels + 1], total[channels]);

        RDom at(0, channels, 0, lanes.rows, 0, lanes.channel_lanes, 0,
                (in.queries + tile_q - 1) / tile_q * (tile_q / lanes.rows), "out");
        stages.element = at.x, stages.row = at.y, stages.share = at.z, stages.row_lane = at.w;
        const Expr lane = at.w * lanes.channel_lanes + at.z, query = at.w * lanes.rows + at.y, element = channel(at.x, lane);
        at.where(unsolved(element < in.value_dim && query < in.queries));
        FuncRef own = stages.running(at.y, lane, h, b);
        std::vector<Expr> mixed;
        for (int n = 0; n < channels; n++) mixed.push_back(own[n]);
        const Expr value = select(is_empty_sum(own[channels]), 0.0f, mux(at.x, mixed) * does.reciprocal(own[channels]));
        s.out = Func("out_stage");
        const Expr result = stored(value);
        s.out(d, i, h, b) = Tuple(undef(result.type()), undef<float>());
        s.out(min(element, in.value_dim - 1), min(query, in.queries - 1), h, b) = Tuple(result, stages.lse(at.y, lane, h, b));
    }
};

}  // namespace

LaneStages lane_stages(const SdpaInputs &in, const LaneShape &lanes, int chunk, int tile_q, const Score &score,
                       const LaneInstructions &does, const std::function<Expr(Expr)> &stored) {
    LaneStages stages;
    // One block of keys: a chunk is what is computed or left out. Steps that read tables read them as they lie.
    const SdpaShape shape{Float(32), chunk, chunk, lanes.rows, false};
    const Expr group = in.query_heads / in.key_heads, queries = in.queries;
    const int group_rows = lanes.group_rows();
    Builder build{in, shape, score,
                  [=](Expr r, Expr t, Expr h) {
                      return Rows{min(t / lanes.channel_lanes * lanes.rows + r, queries - 1), h, h / group};
                  },
                  [=](Expr t) {
                      Expr first = t / lanes.group * group_rows;
                      return std::pair(first, min(first + group_rows, queries) - 1);
                  }};
    LaneBuilder lane{lanes, does, build, stages};
    build.prepare();
    build.intervals();
    lane.query();
    stages.full = lane.partials("", false);
    stages.part = lane.partials("_part", true);
    lane.run();
    lane.finish(tile_q, stored);
    stages.s = build.s;
    return stages;
}

}  // namespace attune
