// SPDX-License-Identifier: MIT
#include "generators/attention/backward/row_stages.h"
#include "generators/attention/equations/masked.h"
#include "generators/math/bits.h"
#include "generators/math/exp2.h"
#include "generators/math/narrowed.h"
#include <numbers>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

BackwardRowsStages backward_rows_stages(const BackwardRowsInputs &in, Type type) {
    BackwardRowsStages s;
    Var i = s.i, h = s.h, b = s.b;
    RDom d(0, in.channels, "channel");
    s.channel = d.x;
    s.product = Func("product");
    s.product(i, h, b) = make_const(type, 0);
    s.product(i, h, b) += cast(type, in.out(d, i, h, b)) * cast(type, in.grad_out(d, i, h, b));
    // A query without keys, whose out is all zeros, has no part in the gradients: its grad_out may hold NaN.
    const Type stored = UInt(in.out.type().bits());
    RDom all(0, in.channels, "largest_channel");
    s.largest_channel = all.x;
    s.largest = Func("largest");
    s.largest(i, h, b) = make_const(stored, 0);
    s.largest(i, h, b) = max(s.largest(i, h, b), reinterpret(stored, in.out(all, i, h, b)) & ~sign_bit(in.out.type()));
    const Type bits = UInt(type.bits());
    Expr lse = in.lse(i, h, b);
    Expr empty = reinterpret(bits, lse) == minus_infinity_bits(type);
    // As bits, because arithmetic on -inf is undefined.
    Expr finite = select(empty, reinterpret(bits, -masked_score(type)), reinterpret(bits, lse));
    Expr delta = select(s.largest(i, h, b) == 0, make_const(type, 0), s.product(i, h, b));
    delta = select(in.has_grad_lse, delta - in.grad_lse(i, h, b), delta);
    s.out = Func("rows");
    s.out(i, h, b) = Tuple(reinterpret(type, finite), delta);
    return s;
}

CaptureSumStages capture_sum_stages(const Func &sums, Expr keys, Expr sums_keys, Type type) {
    CaptureSumStages s;
    Var j = s.j, y = s.y;
    RDom key(0, select(sums_keys, keys, 1), "key");
    s.sum = Func("sum");
    s.sum(j, y) = make_const(sums.type(), 0);
    // Strict: otherwise code generation may conclude that the sum is no NaN.
    s.sum(j, y) = strict_float(s.sum(j, y) + sums(min(j + key, keys - 1), y));
    s.out = Func("capture");
    s.out(j, y) = narrowed(type, s.sum(j, y));
    return s;
}

SinkGradientStages sink_gradient_stages(const SinkGradientInputs &in) {
    SinkGradientStages s;
    Var h = s.h;
    const Type type = in.row_lse.type(), wide = Float(64);
    RDom rows(0, in.queries, 0, in.batch, "rows");
    Expr sink = cast(type, in.sinks(h)), lowest = lowest_score(type);
    // A sink below every score that counts is masked.
    Expr none = strict_float(sink < lowest);
    Expr below = select(none, lowest, sink) - in.row_lse(rows.x, h, rows.y);
    Expr share = exp2_nonpositive(below, make_const(type, std::numbers::log2e));
    s.sum = Func("sum");
    s.sum(h) = make_const(wide, 0);
    s.sum(h) += select(none, make_const(wide, 0), cast(wide, share) * -cast(wide, in.row_delta(rows.x, h, rows.y)));
    s.out = Func("grad_sinks");
    s.out(h) = cast<float>(s.sum(h));
    return s;
}

}  // namespace attune
