// SPDX-License-Identifier: MIT
#include "generators/weight_sums/weight_sums_stages.h"

namespace attune {
using namespace Halide;

WeightSumsStages weight_sums_stages(const WeightSumsInputs &in) {
    WeightSumsStages s;
    const Var j = s.j, h = s.h;
    RDom weights(0, in.group, 0, in.queries, "weights");
    s.head = weights.x, s.query = weights.y;
    // Within the keys, whatever block of them a schedule computes.
    const Expr key = min(likely(j), in.keys - 1);
    s.sum = Func("sum");
    s.sum(j, h) = in.before(key, h);
    s.sum(j, h) = strict_float(s.sum(j, h) + in.x(key, weights.y, weights.x, h));
    s.out = Func("out_stage");
    s.out(j, h) = s.sum(j, h);
    return s;
}

}  // namespace attune
