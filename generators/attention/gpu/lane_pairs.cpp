// SPDX-License-Identifier: MIT
#include "generators/attention/gpu/lane_pairs.h"
#include "generators/attention/equations/softmax_gradient.h"
#include "generators/math/precise.h"
#include <numbers>

namespace attune {
using namespace Halide;

Index LanePairs::index(const Expr &j, const Expr &i, const Expr &h, const Expr &b) const {
    Index at{b, h, i, j, i + f.offset(b), key_head(h), f.query_heads, f.queries, f.keys, {}};
    at.of_pair = [at](const Func &table) { return table(at.j, at.i, at.h, at.b); };
    return at;
}

Expr LanePairs::is_seen(const Index &at) const {
    const Span keys = seen_by(at.i, f.lengths(at.i, at.b), {f.band_begin(at.b), f.band_end(at.b)});
    return at.j >= keys.begin && at.j < keys.end;
}

ScoreFunction LanePairs::factor() const {
    return [probability = score.probability](const Expr &x, const Index &at) { return cast(x.type(), probability(at)); };
}

Func LanePairs::sum_of_products(const std::string &name, const Place &place, const Index &at, const Func &of_query,
                                const Func &of_key, const Expr &channels) const {
    RDom channel(0, channels, name + "_channel");
    Func sum(name);
    const std::vector<Expr> here(place.begin(), place.end());
    sum(place) = 0.0f;
    sum(here) += of_query(channel, at.i, at.h, at.b) * of_key(channel, at.j, key_head(at.h), at.b);
    return sum;
}
Func LanePairs::product(const std::string &name, const Place &place, const Index &at) const {
    return sum_of_products(name, place, at, f.query, f.key, f.head_dim);
}
Func LanePairs::weight_gradient(const std::string &name, const Place &place, const Index &at) const {
    return sum_of_products(name, place, at, in.grad_out, f.value, f.value_dim);
}

LanePairs::Pair LanePairs::pair(const Expr &product, const Expr &weight_gradient, const Index &at, std::size_t of) const {
    Pair p;
    Expr x = product * cast<float>(f.scale);
    p.before = x;
    for (std::size_t n = 0; n < score.steps.size(); n++) {
        const ScoreStep &step = score.steps[n];
        if (n == of) p.before = x;
        Expr after = step.score ? precise(step.score(x, at)) : x;
        if (step.mask) after = select(step.mask(at), after, masked_score(Float(32)));
        x = step.when.defined() ? select(step.when, after, x) : after;
    }
    p.score = x, p.by_weight = weight_gradient;
    const Expr difference = x - in.row_lse(at.i, at.h, at.b);
    p.weight = exp2(difference * Expr(static_cast<float>(std::numbers::log2e)));
    if (!weight_gradient.defined()) return p;
    const Expr by_weight = score.probability ? weight_gradient * precise(factor()(x, at)) : weight_gradient;
    p.by_score = SoftmaxGradient().dS(p.weight, by_weight, in.row_delta(at.i, at.h, at.b));
    return p;
}

}  // namespace attune
