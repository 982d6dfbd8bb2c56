// SPDX-License-Identifier: MIT
#include "generators/masked_softmax/masked_softmax_simt_stages.h"
#include <limits>
#include <numbers>

namespace attune {
using namespace Halide;

namespace {

using Combine = std::function<Expr(Expr, Expr)>;

struct SimtBuilder {
    const SoftmaxLanes &lanes;
    SoftmaxSimtStages &s;

    // Combination over a group of lanes, exchanged in pairs, so that every lane has the same bits.
    Func of_group(const std::string &name, const Func &of_lane, const Combine &combine) const {
        Func f(name);
        Expr x = of_lane(s.e, s.i, s.h, s.b);
        for (int n = 1; n < lanes.reach; n *= 2) x = combine(x, lanes.exchange(x, n));
        f(s.e, s.i, s.h, s.b) = x;
        return f;
    }
    Func of_row(const std::string &name, const Func &of_group, const Expr &start, const Combine &combine, RVar &group) const {
        Func f(name);
        if (lanes.lanes == lanes.reach) {
            f(s.e, s.i, s.h, s.b) = of_group(s.e, s.i, s.h, s.b);
            return f;
        }
        RDom groups(0, lanes.lanes / lanes.reach, name + "_group");
        group = groups.x;
        f(s.e, s.i, s.h, s.b) = start;
        f(s.e, s.i, s.h, s.b) = combine(f(s.e, s.i, s.h, s.b), of_group(groups * lanes.reach, s.i, s.h, s.b));
        return f;
    }
};

}  // namespace

SoftmaxSimtStages softmax_simt_stages(const MaskedSoftmaxInputs &in, const SoftmaxLanes &lanes) {
    SoftmaxSimtStages s;
    const SimtBuilder build{lanes, s};
    const Var n = s.n, c = s.c, e = s.e, j = s.j, i = s.i, h = s.h, b = s.b;
    const Expr lowest = std::numeric_limits<float>::lowest(), seed = -1e6f;
    auto exp = [&](const Expr &x) { return lanes.exp2(x * static_cast<float>(std::numbers::log2e)); };
    s.row_length = Func("row_length");
    s.row_length(i, b) = clamp(in.lengths(i, b), 0, in.keys);
    const Expr length = s.row_length(i, b), has_masked = in.seed && length < in.keys;

    // Turns beyond the length of a row are left out; in the last turn a lane drops scores read beyond its keys.
    const Expr step = lanes.keys * lanes.lanes, turns = (in.keys + step - 1) / step;
    auto key = [&](const Expr &n, const Expr &turn, const Expr &lane) { return (turn * lanes.keys + n) * lanes.lanes + lane; };
    auto score = [&](const Expr &n, const Expr &turn, const Expr &lane) {
        return in.scores(min(key(n, turn, lane), in.keys - 1), i, h, b);
    };
    auto each_key = [&](const std::string &name) {
        RDom at(0, lanes.keys, 0, turns, name);
        at.where(at.y * step < length);
        return at;
    };

    // A NaN or +inf makes its own weight NaN and so the row, whatever max() makes of a NaN. A row of -inf has the sum 0, and so
    // is NaN, too.
    RDom max_at = each_key("max_key");
    s.max_key = max_at.x, s.max_turn = max_at.y;
    s.lane_max = Func("lane_max");
    s.lane_max(e, i, h, b) = select(has_masked, seed, lowest);
    s.lane_max(e, i, h, b) =
        lanes.max(s.lane_max(e, i, h, b), select(key(max_at.x, max_at.y, e) < length, score(max_at.x, max_at.y, e), lowest));
    s.group_max = build.of_group("group_max", s.lane_max, lanes.max);
    s.row_max = build.of_row("row_max", s.group_max, lowest, lanes.max, s.max_group);

    const Combine add = [](const Expr &x, const Expr &y) { return x + y; };
    RDom sum_at = each_key("sum_key");
    s.sum_key = sum_at.x, s.sum_turn = sum_at.y;
    s.lane_sum = Func("lane_sum");
    s.lane_sum(e, i, h, b) = 0.0f;
    s.lane_sum(e, i, h, b) +=
        select(key(sum_at.x, sum_at.y, e) < length, exp(score(sum_at.x, sum_at.y, e) - s.row_max(e, i, h, b)), 0.0f);
    s.group_sum = build.of_group("group_sum", s.lane_sum, add);
    s.row_sum = build.of_row("row_sum", s.group_sum, 0.0f, add, s.sum_group);

    s.masked_weight = Func("masked_weight"), s.scale = Func("scale");
    s.masked_weight(e, i, h, b) = select(has_masked, exp(seed - s.row_max(e, i, h, b)), 0.0f);
    s.scale(e, i, h, b) = 1.0f / (s.row_sum(e, i, h, b) + cast<float>(in.keys - length) * s.masked_weight(e, i, h, b));

    const Expr scale = s.scale(e, i, h, b);
    s.weight = Func("weight");
    s.weight(n, c, e, i, h, b) = select(key(n, c, e) < length, exp(score(n, c, e) - s.row_max(e, i, h, b)) * scale, has_masked,
                                        s.masked_weight(e, i, h, b) * scale, 0.0f);
    RDom at(0, lanes.keys, 0, turns, 0, lanes.lanes, "out");
    s.key = at.x, s.turn = at.y, s.lane = at.z;
    at.where(key(at.x, at.y, at.z) < in.keys);
    s.out = Func("out_stage");
    s.out(j, i, h, b) = undef<float>();
    s.out(min(key(at.x, at.y, at.z), in.keys - 1), i, h, b) = s.weight(at.x, at.y, at.z, i, h, b);
    return s;
}

}  // namespace attune
