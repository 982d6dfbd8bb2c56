// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/weights_simt_stages.h"
#include "generators/math/bits.h"
#include <numbers>

namespace attune {
using namespace Halide;

WeightsSimtStages weights_simt_stages(const WeightsSimtInputs &in, const Score &score,
                                      const std::function<Expr(Expr)> &narrowed) {
    WeightsSimtStages s;
    const SdpaInputs &f = in.rows;
    const Var j = s.j, i = s.i, h = s.h, b = s.b;
    const GradientInputs rows{f, {}, in.lse, {}};
    const LanePairs lane{rows, score, in.exp2};
    const Index at = lane.index(j, i, h, b);
    s.qk_of_total = lane.product("qk_of_total", {j, i, h, b}, at), s.qk = lane.product("qk_of_weights", {j, i, h, b}, at);
    const LanePairs::Pair summed = lane.pair(s.qk_of_total(j, i, h, b), {}, at);
    s.weight_of_total = Func("weight_of_total"), s.total = Func("row_totals");
    s.weight_of_total(j, i, h, b) = select(lane.is_seen(at) && !is_masked(summed.score), summed.weight, 0.0f);
    const RDom key(0, f.keys, "key");
    s.key = key.x;
    const Expr sink = in.exp2((f.sinks(h) - in.lse(i, h, b)) * static_cast<float>(std::numbers::log2e));
    s.total(i, h, b) = select(f.has_sinks, sink, 0.0f);
    s.total(i, h, b) += s.weight_of_total(key, i, h, b);

    // Step 0 is softcap: before it stand scaled products, behind it capped ones.
    const Expr product = s.qk(j, i, h, b);
    const LanePairs::Pair scaled = lane.pair(product, {}, at, 0), pair = lane.pair(product, {}, at, 1);
    const Expr takes_part = lane.is_seen(at) && !is_masked(pair.score);
    // As bits, because of -inf, of which fast arithmetic knows nothing.
    const auto bits = [](const Expr &x) { return reinterpret<uint32_t>(x); };
    const Expr minus_infinity = Internal::make_const(UInt(32), 0xff800000), zero = Internal::make_const(UInt(32), 0);
    const Expr value = select(in.mode == 0, bits(scaled.before), in.mode == 1, bits(pair.before), in.mode == 2,
                              select(takes_part, bits(pair.score), minus_infinity),
                              select(takes_part, bits(pair.weight / s.total(i, h, b)), zero));
    s.of_head = Func("weight_of_head"), s.sum = Func("weight_sum"), s.out = Func("weights");
    s.of_head(j, i, h, b) = reinterpret<float>(value);
    const RDom head(0, in.heads, "head");
    s.head = head.x;
    s.sum(j, i, h, b) = 0.0f;
    s.sum(j, i, h, b) = strict_float(s.sum(j, i, h, b) + s.of_head(j, i, min(h + head, f.query_heads - 1), b));
    s.out(j, i, h, b) =
        narrowed(select(in.heads == 1, s.sum(j, i, h, b), strict_float(s.sum(j, i, h, b) / cast<float>(in.heads))));
    return s;
}

}  // namespace attune
