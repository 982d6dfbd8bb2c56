// SPDX-License-Identifier: MIT
// One call of additive_attention as data, random arrays for it, and its check.
#pragma once
#include "tests/reference/additive_reference.h"
#include "tests/support/sdpa_arrays.h"

namespace attune_test {

// A case. `attention` has its sizes, masks and all after the score; its head_dim and key_dim are the widths of query and key,
// or `hidden` where these are given projected.
struct AdditiveCase {
    SdpaCase attention;
    std::int64_t hidden = 16;
    bool w_query = true, w_key = true, b_query = false, b_key = false, w_score = true;
    double b_score = 0;

    bool projects() const { return w_query || w_key; }
};
inline std::string describe(const AdditiveCase &c) {
    std::ostringstream text;
    text << "hidden " << c.hidden << (c.w_query ? " w_query" : "") << (c.w_key ? " w_key" : "") << (c.b_query ? " b_query" : "")
         << (c.b_key ? " b_key" : "") << (c.w_score ? " w_score" : "") << " b_score " << c.b_score << ' ' << c.attention;
    return text.str();
}

template<typename T> struct AdditiveArrays {
    AdditiveCase the;
    SdpaArrays<T> base;
    Array<T> w_query, w_key, b_query, b_key, w_score;

    explicit AdditiveArrays(const AdditiveCase &c) : the(c), base(widened(c)) {
        std::mt19937 random(c.attention.seed + 17);
        const auto make = [&](bool given, const std::vector<std::int64_t> &extents, double spread) {
            if (!given) return Array<T>();
            const bool strided = c.attention.strided_masks && extents.size() > 1;
            Array<T> made = strided ? Array<T>(extents, padded_strides(extents)) : Array<T>(extents);
            made.randomise(random, spread);
            return made;
        };
        const std::int64_t query_dim = base.the.head_dim, key_dim = base.the.key_dim;
        w_query = make(c.w_query, {c.hidden, query_dim}, 1.7 / std::sqrt(double(query_dim)));
        w_key = make(c.w_key, {c.hidden, key_dim}, 1.7 / std::sqrt(double(key_dim)));
        b_query = make(c.b_query, {c.hidden}, 1);
        b_key = make(c.b_key, {c.hidden}, 1);
        w_score = make(c.w_score, {c.hidden}, 3 / std::sqrt(double(c.hidden)));
    }

    attune::AdditiveOptions options(std::string_view variant) {
        attune::AdditiveOptions o;
        const auto give = [](bool given, Array<T> &array, attune::ConstView &to) {
            if (given) to = array.view();
        };
        give(the.w_query, w_query, o.w_query), give(the.w_key, w_key, o.w_key), give(the.b_query, b_query, o.b_query);
        give(the.b_key, b_key, o.b_key), give(the.w_score, w_score, o.w_score);
        o.b_score = the.b_score, o.attention = base.options(variant);
        return o;
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}) {
        return attune::additive_attention(context, base.query.view(), base.key.view(), base.value.view(), base.out.view(),
                                          options(variant));
    }
    template<typename Real> SdpaResult<Real> reference() {
        return additive_reference<Real, T>(base.query.view(), base.key.view(), base.value.view(), options({}));
    }
    // Bound on the error of a raw score from the header, for f32 without projections: 2e-6 of the sum of |w_score|, and one
    // rounding for each of b_score and the scale.
    double promised_error() {
        double sum = 0, scale = std::abs(the.attention.scale.value_or(1));
        w_score.each([&](T &x) { sum += std::abs(double(x)); });
        if (!the.w_score) sum = double(the.hidden);
        return scale * (2e-6 * sum + 2.4e-7 * std::abs(the.b_score));
    }

private:
    static SdpaCase widened(const AdditiveCase &c) {
        SdpaCase a = c.attention;
        if (a.key_dim == 0) a.key_dim = a.head_dim;
        if (!c.w_query) a.head_dim = c.hidden;
        if (!c.w_key) a.key_dim = c.hidden;
        return a;
    }
};

// Fault of outputs beyond the error that scores off by `promised` allow, and four roundings; without projections in f32.
template<typename Real, typename T>
std::string promise_defect(const SdpaResult<Real> &reference, AdditiveArrays<T> &a, double promised) {
    const SdpaCase &c = a.the.attention;
    double largest_value = 0;
    a.base.value.each([&](T &x) { largest_value = std::max(largest_value, std::abs(double(x))); });
    const double unit = rounding_floor * double(std::numeric_limits<T>::epsilon());
    const auto worst = [&](const char *name, const std::vector<Real> &expected, const std::vector<T> &got, double allowed) {
        std::ostringstream why;
        for (std::size_t n = 0; n < got.size(); n++) {
            const double error = double(std::abs(Real(got[n]) - expected[n])), magnitude = double(std::abs(expected[n]));
            if (Real(got[n]) == expected[n] || error <= allowed + unit * magnitude) continue;
            why << name << ": element " << n << " is " << got[n] << ", the reference " << expected[n] << ", allowed "
                << allowed;
            return why.str();
        }
        return std::string();
    };
    // If each score is off by e at most, a weight is off by a factor of exp(2 e) at most; dropout enlarges weights.
    const double kept = 1 - c.dropout.probability, factor = std::expm1(2 * promised) / (kept > 0 ? kept : 1);
    std::string found = worst("out", reference.out, a.base.out.values(), (factor + unit) * largest_value);
    if (found.empty()) found = worst("lse", reference.lse, a.base.lse.values(), promised);
    if (!found.empty() || !c.weights) return found;
    const bool probabilities = *c.weights == attune::WeightsMode::probabilities;
    return worst("weights", reference.weights, a.base.weights.values(), probabilities ? factor : promised);
}

template<typename T> std::string defect(AdditiveArrays<T> &a) {
    if (const std::string untouched = untouched_defect(a.base); !untouched.empty()) return untouched;
    const auto reference = a.template reference<Reference<T>>();
    if (std::is_same_v<T, float> && !a.the.projects()) return promise_defect(reference, a, a.promised_error());
    return value_defect(reference, a.template reference<T>(), a.base);
}

template<typename T> void check_case(attune::Context &context, const AdditiveCase &c, std::string_view variant = {}) {
    check_arrays(context, AdditiveArrays<T>(c), variant);
}

}  // namespace attune_test
