// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/simt_gradient_stages.h"

namespace attune {
using namespace Halide;

namespace {

struct GradientBuilder {
    const GradientInputs &in;
    const LaneShape &lanes;
    const LaneInstructions &does;
    const GradientPairs &pairs;
    LaneGradient s = {};
    const SdpaInputs &f = in.forward;

    Expr channels_of(bool other) const { return other ? f.value_dim : f.head_dim; }
    // A lane's channels of one row: of query or key, or else of grad_out or value.
    Expr row_of(bool of_queries, bool other, const Expr &row, const Expr &head) const {
        const Func &from = of_queries ? (other ? in.grad_out : f.query) : (other ? f.value : f.key);
        return within_head(lanes, channel_of_lane(lanes, s.j, s.t), channels_of(other),
                           [&](Expr d) { return from(d, row, head, s.b); });
    }

    Func product(const std::string &of_what, const Func &own, const Func &met, RVar &along) const {
        RDom element(0, lanes.lane_channels(), of_what + "_element");
        along = element.x;
        Func share(of_what);
        share(s.r, s.k, s.c, s.t, s.g, s.h, s.b) = 0.0f;
        share(s.r, s.k, s.c, s.t, s.g, s.h, s.b) +=
            own(element, s.r, s.t, s.h, s.b) * met(element, s.k, s.c, s.t, s.g, s.h, s.b);
        return share;
    }
    Expr summed(const Func &share) const {
        return does.sum([&](Expr lane) { return share(s.r, s.k, s.c, lane, s.g, s.h, s.b); }, s.t, lanes.channel_lanes);
    }

    LanePairs pairs_of(const std::string &kind, bool masked) const {
        const std::string suffix = pairs.name() + kind;
        LanePairs p;
        p.met = Func("met" + suffix), p.met_other = Func("met_other" + suffix);
        const Expr met = pairs.met(!masked), head = pairs.met_head();
        p.met(s.j, s.k, s.c, s.t, s.g, s.h, s.b) = row_of(!pairs.of_query(), false, met, head);
        p.met_other(s.j, s.k, s.c, s.t, s.g, s.h, s.b) = row_of(!pairs.of_query(), true, met, head);
        p.part_score = product("part_score" + suffix, s.own, p.met, p.channel);
        Expr gradient;
        if (pairs.of != GradientOf::value) {
            p.part_gradient = product("part_gradient" + suffix, s.own_other, p.met_other, p.other_channel);
            gradient = summed(p.part_gradient);
        }
        p.of_pair = pairs.weights(summed(p.part_score), gradient, pairs.of_row(pairs.in.row_lse, masked),
                                  pairs.of_row(pairs.in.row_delta, masked), suffix, masked);
        return p;
    }

    void walk(LanePairs &p, bool masked) {
        const Expr chunks = (pairs.met_rows() + pairs.chunk - 1) / pairs.chunk;
        std::vector<Range> loops = {{0, pairs.chunk}, {0, chunks}};
        // The heads that share a key head, one after the other.
        p.has_heads = !pairs.of_query();
        if (p.has_heads) loops.emplace_back(0, pairs.group());
        RDom at(loops, "running" + pairs.name() + (masked ? "_part" : ""));
        pairs.take(at, at[1], masked ? SeenChunks::part : SeenChunks::whole);
        p.running_key = at[0], p.running_chunk = at[1];
        if (p.has_heads) p.running_head = at[2];
        const Expr g = p.has_heads ? Expr(at[2]) : Expr(0), counted = p.of_pair.weight(s.r, at[0], at[1], s.t, g, s.h, s.b);
        Expr row = (pairs.of == GradientOf::value ? p.met_other : p.met)(s.j, at[0], at[1], s.t, g, s.h, s.b);
        // A masked row may hold NaN: it is replaced, not multiplied by 0.
        if (masked) row = select(counts(counted), row, 0.0f);
        s.running(s.j, s.r, s.t, s.h, s.b) += counted * row;
    }

    void run(int tile_rows, const std::function<Expr(Expr)> &stored) {
        const std::string name = pairs.name();
        s.own = Func("own" + name), s.own_other = Func("own_other" + name);
        s.own(s.j, s.r, s.t, s.h, s.b) = row_of(pairs.of_query(), false, pairs.own(), s.h);
        s.own_other(s.j, s.r, s.t, s.h, s.b) = row_of(pairs.of_query(), true, pairs.own(), s.h);
        s.full = pairs_of("", false), s.part = pairs_of("_part", true);
        s.running = Func("running" + name);
        s.running(s.j, s.r, s.t, s.h, s.b) = 0.0f;
        walk(s.full, false);
        walk(s.part, true);

        const Expr rows = pairs.own_rows(), row_lanes = (rows + tile_rows - 1) / tile_rows * (tile_rows / lanes.rows);
        const Expr channels = channels_of(pairs.of == GradientOf::value);
        RDom at(0, lanes.lane_channels(), 0, lanes.rows, 0, lanes.channel_lanes, 0, row_lanes, "out" + name);
        s.element = at.x, s.row = at.y, s.share = at.z, s.row_lane = at.w;
        const Expr lane = at.w * lanes.channel_lanes + at.z, row = at.w * lanes.rows + at.y;
        const Expr channel = channel_of_lane(lanes, at.x, lane);
        at.where(unsolved(channel < channels && row < rows));
        Expr total = s.running(at.x, at.y, lane, s.h, s.b);
        if (pairs.of != GradientOf::value) total *= cast<float>(f.scale);
        s.out = Func("gradient" + name);
        Var row_out("row");
        const Expr result = stored(total);
        s.out(s.d, row_out, s.h, s.b) = undef(result.type());
        s.out(min(channel, channels - 1), min(row, rows - 1), s.h, s.b) = result;
    }
};

}  // namespace

LaneGradient lane_gradient(GradientOf of, const GradientInputs &in, const LaneShape &lanes, int chunk, int tile_rows,
                           const Score &score, const LaneInstructions &does, const std::function<Expr(Expr)> &stored) {
    const LaneGradient at;
    const Expr first = at.t / lanes.group * lanes.group_rows();
    const GradientPairs pairs{.of = of,
                              .in = in,
                              .score = score,
                              .exp2 = does.exp2,
                              .chunk = chunk,
                              .own_at = at.t / lanes.channel_lanes * lanes.rows + at.r,
                              .met_at = at.c * chunk + at.k,
                              .tile_rows = {first, first + lanes.group_rows()},
                              .pair = {at.r, at.k, at.c, at.t, at.g, at.h, at.b},
                              .stepped = at.r,
                              .steps = lanes.rows};
    GradientBuilder build{in, lanes, does, pairs};
    build.run(tile_rows, stored);
    return build.s;
}

}  // namespace attune
