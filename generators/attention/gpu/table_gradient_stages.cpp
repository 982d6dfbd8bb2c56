// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/table_gradient_stages.h"
#include "generators/attention/equations/scores.h"

namespace attune {
using namespace Halide;

namespace {

struct TableGradientBuilder {
    const TableGradientInputs &in;
    const Score &score;
    TableGradientStages s = {};
    const SdpaInputs &f = in.rows.forward;
    const Expr zero = Internal::make_const(Float(64), 0);

    // factor(pair): of the gradient by the score. Steps behind the bias and the slopes add to the score, or mask it.
    TableGradientStages::OfPair of_pair(const std::string &suffix, const std::function<Expr(const Index &)> &factor) const {
        const LanePairs lane{in.rows, score, in.exp2};
        const std::vector<Var> place = {s.j, s.i, s.h, s.b};
        const Index at = lane.index(s.j, s.i, s.h, s.b);
        TableGradientStages::OfPair p;
        p.qk = lane.product("qk" + suffix, place, at);
        p.weight_gradient = lane.weight_gradient("weight_gradient" + suffix, place, at);
        const LanePairs::Pair pair = lane.pair(p.qk(s.j, s.i, s.h, s.b), p.weight_gradient(s.j, s.i, s.h, s.b), at);
        p.summand = Func("summand" + suffix);
        p.summand(s.j, s.i, s.h, s.b) =
            select(lane.is_seen(at) && !is_masked(pair.score), cast<double>(pair.by_score * factor(at)), zero);
        return p;
    }

    void add_bias(const std::function<Expr(Expr)> &narrowed) {
        s.for_bias = of_pair("_of_bias", [](const Index &) { return Expr(1.0f); });
        // A dimension along which the bias broadcasts is summed; the lane's element is its first one.
        const Expr full[] = {f.keys, f.queries, f.query_heads, in.batch};
        std::vector<Range> shared;
        for (std::size_t n = 0; n < 4; n++) shared.emplace_back(0, select(in.bias_extents[n] == full[n], 1, full[n]));
        shared[3] = Range(0, select(in.wants_bias, shared[3].extent, 0));
        RDom at(shared, "shared");
        s.shared = {at.x, at.y, at.z, at.w};
        s.bias_sum = Func("bias_sum"), s.bias = Func("bias_gradient");
        s.bias_sum(s.j, s.i, s.h, s.b) = zero;
        s.bias_sum(s.j, s.i, s.h, s.b) += s.for_bias.summand(min(s.j + at.x, f.keys - 1), min(s.i + at.y, f.queries - 1),
                                                             min(s.h + at.z, f.query_heads - 1), min(s.b + at.w, in.batch - 1));
        s.bias(s.j, s.i, s.h, s.b) = narrowed(cast<float>(s.bias_sum(s.j, s.i, s.h, s.b)));
    }

    void add_slopes() {
        // The step with a slope of 1 for every head, of a score of 0.
        Func one("one_slope");
        one(s.h, s.b) = 1.0f;
        const ScoreFunction distance = alibi_step(one, Internal::const_true(), Float(32)).score;
        s.for_slopes = of_pair("_of_slopes", [&](const Index &at) { return distance(0.0f, at); });
        RDom key(0, select(in.wants_slopes, f.keys, 0), "key");
        s.key = key.x;
        s.slope_rows = Func("slope_rows");
        s.slope_rows(s.i, s.h, s.b) = zero;
        s.slope_rows(s.i, s.h, s.b) += s.for_slopes.summand(key, s.i, s.h, s.b);

        RDom rows(0, (f.queries + lanes_of_slope - 1) / lanes_of_slope, 0,
                  select(!in.wants_slopes, 0, in.slope_batch == in.batch, 1, in.batch), "rows");
        RDom group(0, lanes_of_slope, "group");
        s.query = rows.x, s.entry = rows.y, s.group = group.x;
        const Expr number = rows.x * lanes_of_slope + s.g;
        s.partial_sum = Func("partial_slope"), s.sum = Func("sum_of_slope"), s.slopes = Func("slope_gradient");
        s.partial_sum(s.g, s.h, s.b) = zero;
        s.partial_sum(s.g, s.h, s.b) +=
            select(number < f.queries, s.slope_rows(min(number, f.queries - 1), s.h, min(s.b + rows.y, in.batch - 1)), zero);
        s.sum(s.h, s.b) = zero;
        s.sum(s.h, s.b) += s.partial_sum(group, s.h, s.b);
        s.slopes(s.h, s.b) = cast<float>(s.sum(s.h, s.b));
    }
};

}  // namespace

TableGradientStages table_gradient_stages(const TableGradientInputs &in, const Score &score,
                                          const std::function<Expr(Expr)> &narrowed) {
    TableGradientBuilder build{in, score};
    build.add_bias(narrowed);
    build.add_slopes();
    return build.s;
}

}  // namespace attune
