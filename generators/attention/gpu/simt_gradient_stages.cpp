// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/simt_gradient_stages.h"

namespace attune {
using namespace Halide;

namespace {

struct GradientBuilder {
    const GradientInputs &in;
    const SimtShape &lanes;
    const SimtInstructions &does;
    const GradientPairs &pairs;
    SimtGradient s = {};
    const SdpaInputs &f = in.forward;

    Expr channels_of(bool other) const { return other ? f.value_dim : f.head_dim; }
    // A lane's channels of one row of query or key, or, if `other`, of grad_out or value.
    Expr row_of(bool of_queries, bool other, const Expr &row, const Expr &head) const {
        const Func &from = of_queries ? (other ? in.grad_out : f.query) : (other ? f.value : f.key);
        return within_head(lanes, channel_of_lane(lanes, s.j, s.t), channels_of(other),
                           [&](Expr d) { return from(d, row, head, s.b); });
    }

    Func product(const std::string &of_what, const Func &resident, const Func &streamed, RVar &along) const {
        RDom element(0, lanes.lane_channels(), of_what + "_element");
        along = element.x;
        Func share(of_what);
        share(s.r, s.k, s.c, s.t, s.g, s.h, s.b) = 0.0f;
        share(s.r, s.k, s.c, s.t, s.g, s.h, s.b) +=
            resident(element, s.r, s.t, s.h, s.b) * streamed(element, s.k, s.c, s.t, s.g, s.h, s.b);
        return share;
    }
    Expr summed(const Func &share) const {
        return does.sum([&](Expr lane) { return share(s.r, s.k, s.c, lane, s.g, s.h, s.b); }, s.t, lanes.channel_lanes);
    }

    SimtPairs pairs_of(const std::string &kind, bool masked) const {
        const std::string suffix = pairs.name() + kind;
        SimtPairs p;
        p.streamed = Func("streamed" + suffix), p.streamed_other = Func("streamed_other" + suffix);
        const Expr streamed = pairs.streamed(!masked), head = pairs.streamed_head();
        p.streamed(s.j, s.k, s.c, s.t, s.g, s.h, s.b) = row_of(!pairs.of_query(), false, streamed, head);
        p.streamed_other(s.j, s.k, s.c, s.t, s.g, s.h, s.b) = row_of(!pairs.of_query(), true, streamed, head);
        p.qk_share = product("qk_share" + suffix, s.resident, p.streamed, p.channel);
        Expr gradient;
        if (pairs.of != GradientOf::value) {
            p.weight_gradient_share =
                product("weight_gradient_share" + suffix, s.resident_other, p.streamed_other, p.other_channel);
            gradient = summed(p.weight_gradient_share);
        }
        p.of_pair = pairs.weights(summed(p.qk_share), gradient, pairs.of_row(pairs.in.row_lse, masked),
                                  pairs.of_row(pairs.in.row_delta, masked), suffix, masked);
        return p;
    }

    void accumulate(SimtPairs &p, bool masked) {
        const Expr kv_blocks = (pairs.streamed_rows() + pairs.kv_block - 1) / pairs.kv_block;
        std::vector<Range> loops = {{0, pairs.kv_block}, {0, kv_blocks}};
        // The query heads that share a key head, one after the other.
        p.has_heads = !pairs.of_query();
        if (p.has_heads) loops.emplace_back(0, pairs.group());
        RDom at(loops, "accumulator" + pairs.name() + (masked ? "_partial" : ""));
        pairs.take(at, at[1], masked ? SeenKvBlocks::partial : SeenKvBlocks::whole);
        p.sum_key = at[0], p.sum_block = at[1];
        if (p.has_heads) p.sum_head = at[2];
        const Expr g = p.has_heads ? Expr(at[2]) : Expr(0), counted = p.of_pair.weight(s.r, at[0], at[1], s.t, g, s.h, s.b);
        Expr row = (pairs.of == GradientOf::value ? p.streamed_other : p.streamed)(s.j, at[0], at[1], s.t, g, s.h, s.b);
        // A masked row may hold NaN: it is replaced, not multiplied by 0.
        if (masked) row = select(counts(counted), row, 0.0f);
        s.accumulator(s.j, s.r, s.t, s.h, s.b) += counted * row;
    }

    void run(int tile_rows, const std::function<Expr(Expr)> &stored) {
        const std::string name = pairs.name();
        s.resident = Func("resident" + name), s.resident_other = Func("resident_other" + name);
        s.resident(s.j, s.r, s.t, s.h, s.b) = row_of(pairs.of_query(), false, pairs.resident(), s.h);
        s.resident_other(s.j, s.r, s.t, s.h, s.b) = row_of(pairs.of_query(), true, pairs.resident(), s.h);
        s.full = pairs_of("", false), s.partial = pairs_of("_partial", true);
        s.accumulator = Func("accumulator" + name);
        s.accumulator(s.j, s.r, s.t, s.h, s.b) = 0.0f;
        accumulate(s.full, false);
        accumulate(s.partial, true);

        const Expr rows = pairs.resident_rows(), row_lanes = (rows + tile_rows - 1) / tile_rows * (tile_rows / lanes.rows);
        const Expr channels = channels_of(pairs.of == GradientOf::value);
        RDom at(0, lanes.lane_channels(), 0, lanes.rows, 0, lanes.channel_lanes, 0, row_lanes, "out" + name);
        s.element = at.x, s.row = at.y, s.share = at.z, s.row_lane = at.w;
        const Expr lane = at.w * lanes.channel_lanes + at.z, row = at.w * lanes.rows + at.y;
        const Expr channel = channel_of_lane(lanes, at.x, lane);
        at.where(unsolved(channel < channels && row < rows));
        Expr total = s.accumulator(at.x, at.y, lane, s.h, s.b);
        if (pairs.of != GradientOf::value) total *= cast<float>(f.scale);
        s.out = Func("gradient" + name);
        Var row_out("row");
        const Expr result = stored(total);
        s.out(s.d, row_out, s.h, s.b) = undef(result.type());
        s.out(min(channel, channels - 1), min(row, rows - 1), s.h, s.b) = result;
    }
};

}  // namespace

SimtGradient simt_gradient(GradientOf of, const GradientInputs &in, const SimtShape &lanes, int kv_block, int tile_rows,
                           const Score &score, const SimtInstructions &does, const std::function<Expr(Expr)> &stored) {
    const SimtGradient at;
    const Expr first = at.t / lanes.group * lanes.group_rows();
    const GradientPairs pairs{.of = of,
                              .in = in,
                              .score = score,
                              .exp2 = does.exp2,
                              .kv_block = kv_block,
                              .resident_at = at.t / lanes.channel_lanes * lanes.rows + at.r,
                              .streamed_at = at.c * kv_block + at.k,
                              .tile_rows = {first, first + lanes.group_rows()},
                              .pair = {at.r, at.k, at.c, at.t, at.g, at.h, at.b},
                              .stepped = at.r,
                              .steps = lanes.rows};
    GradientBuilder build{in, lanes, does, pairs};
    build.run(tile_rows, stored);
    return build.s;
}

}  // namespace attune
