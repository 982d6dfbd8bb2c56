// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/gradient_pairs.h"
#include "generators/attention/equations/score_derivative.h"
#include "generators/attention/equations/softmax_gradient.h"
#include "generators/math/precise.h"
#include <numbers>

namespace attune {
using namespace Halide;

Index GradientPairs::index(bool inside) const {
    const Expr i = query(inside);
    Index at{b, query_head(), i, key(inside), i + f.offset(b), key_head(), f.query_heads, f.queries, f.keys, {}};
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
    return at;
}

// Whether some step does more than add to the score: then its slope is a factor.
bool GradientPairs::is_bent() const {
    if (of == GradientOf::value) return false;
    const Expr x = Internal::Variable::make(Float(32), "x");
    for (const ScoreStep &step : score.steps)
        if (step.score && !Internal::is_const_one(score_derivative(step.score, x, index(false)))) return true;
    return false;
}

void GradientPairs::apply(PairWeights &p, const ScoreStep &step, bool bent, const std::string &suffix, bool masked) const {
    RDom of_step(0, steps, "step" + std::to_string(p.steps.size()) + suffix);
    if (step.when.defined()) of_step.where(step.when);
    p.steps.push_back(of_step.x);
    const auto stepped_in = [&](const Expr &x) { return Internal::substitute(stepped.name(), of_step.x, x); };
    Index at = index(!masked);
    at.i = stepped_in(at.i), at.j = stepped_in(at.j), at.position = stepped_in(at.position);
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
    std::vector<Expr> element;
    for (const Var &v : pair) element.push_back(stepped_in(v));
    FuncRef score_value = p.score(element);
    const Expr before = bent ? Expr(score_value[1]) : Expr(score_value);
    Expr after = before;
    if (step.score) after = precise(step.score(before, at));
    if (step.mask) after = select(step.mask(at), after, masked_score(Float(32)));
    if (!bent) {
        score_value = after;
        return;
    }
    Expr slope = score_value[0];
    if (step.score) slope *= precise(score_derivative(step.score, before, at));
    score_value = Tuple(slope, after);  // in this order: values are stored in turn, and both read the old score
}

PairWeights GradientPairs::weights(const Expr &product, const Expr &weight_gradient, const Expr &lse, const Expr &delta,
                                   const std::string &suffix, bool masked) const {
    const bool bent = is_bent();
    PairWeights p;
    p.score = Func("score" + suffix);
    const Expr x = product * cast<float>(f.scale);
    if (bent)
        p.score(pair) = Tuple(1.0f, x);
    else
        p.score(pair) = x;
    for (const ScoreStep &step : score.steps)
        if (masked || !step.may_mask) apply(p, step, bent, suffix, masked);

    FuncRef of_pair = p.score(std::vector<Expr>(pair.begin(), pair.end()));
    const Expr score_value = bent ? Expr(of_pair[1]) : Expr(of_pair), i = query(!masked);
    // Subtracted before the product with log2(e): the difference is small where both are large.
    const Expr power = (score_value - lse) * Expr(static_cast<float>(std::numbers::log2e));
    Expr counted = exp2(power), factor;
    if (score.probability) factor = cast<float>(precise(score.probability(index(!masked))));
    if (of == GradientOf::value) {
        if (factor.defined()) counted *= factor;
    } else {
        counted = SoftmaxGradient().dS(counted, factor.defined() ? weight_gradient * factor : weight_gradient, delta);
        if (bent) counted *= Expr(of_pair[0]);
    }
    if (masked) {
        const Expr at = query_at(), j = key_at();
        Expr kept = at < f.queries && j >= at + f.band_begin(b) && j < min(f.lengths(i, b), at + f.band_end(b));
        kept = kept && !is_masked(score_value);
        counted = kept_or_marked(kept, counted);
    }
    p.weight = Func("weight" + suffix);
    p.weight(pair) = counted;
    return p;
}

// Query i sees the keys from i + band_begin to i + band_end.
Span GradientPairs::seen_rows() const {
    const auto &[first, end] = tile_rows;
    if (of_query()) {
        const Expr last = min(end, f.queries) - 1;
        return {max(0, first + f.band_begin(b)), select(first < f.queries, min(f.longest(t, b), last + f.band_end(b)), 0)};
    }
    const Expr end_of_keys = min(end, f.keys);
    return {max(0, first - f.band_end(b) + 1),
            min(f.queries, select(first < f.longest(t, b), end_of_keys - f.band_begin(b), 0))};
}

// Streamed rows that all rows see, by the intervals of the rows.
Span GradientPairs::whole_rows() const {
    const auto &[first, end] = tile_rows;
    if (of_query()) {
        const Expr last = min(end, f.queries) - 1;
        return {max(0, last + f.band_begin(b)), min(f.shortest(t, b), first + f.band_end(b))};
    }
    const Expr end_of_keys = min(end, f.keys);
    return {max(0, end_of_keys - f.band_end(b)),
            min(f.queries, select(end_of_keys <= f.shortest(t, b), first - f.band_begin(b) + 1, 0))};
}

void GradientPairs::take(RDom &at, const Expr &block_at, SeenKvBlocks which) const {
    take_kv_blocks(at, block_at, kv_blocks_of(seen_rows(), whole_rows(), kv_block, score), which);
}

}  // namespace attune
