// SPDX-License-Identifier: MIT
#include "generators/head_mean/head_mean_stages.h"
#include "generators/math/accumulator.h"
#include "generators/math/narrowed.h"

namespace attune {
using namespace Halide;

HeadMeanStages head_mean_stages(const HeadMeanInputs &in, Type stored) {
    HeadMeanStages s;
    const Var j = s.j, i = s.i, b = s.b;
    const Type type = accumulator_of(stored);
    RDom head(0, in.heads, "head");
    s.head = head.x;
    s.sum = Func("sum");
    s.sum(j, i, b) = Internal::make_const(type, 0);
    // Strict: code generation assumes no -inf, as masked scores are, and would make the quotient a product with 1 / heads.
    s.sum(j, i, b) = strict_float(s.sum(j, i, b) + cast(type, in.x(min(likely(j), in.keys - 1), head, i, b)));
    s.out = Func("out_stage");
    s.out(j, i, b) = narrowed(stored, strict_float(s.sum(j, i, b) / cast(type, in.heads)));
    return s;
}

}  // namespace attune
