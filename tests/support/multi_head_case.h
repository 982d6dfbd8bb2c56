// SPDX-License-Identifier: MIT
// One call of multi_head_attention as data, random arrays for it, and its check.
#pragma once
#include "tests/reference/multi_head_reference.h"
#include "tests/support/sdpa_arrays.h"

namespace attune_test {

// A case. `attention` has heads, sizes, masks and all after the projections (head_dim and value_dim per head).
struct MultiHeadCase {
    SdpaCase attention;
    std::int64_t query_width = 24, key_width = 20, value_width = 28, out_width = 17;
    bool query_bias = false, key_bias = false, value_bias = false, out_bias = false;
    bool self = false;    // query, key and value are one tensor of query_width
    bool packed = false;  // weights of query, key and value are one array, and so are biases
    bool strided = false;
};
inline std::string describe(const MultiHeadCase &c) {
    std::ostringstream text;
    text << "widths " << c.query_width << ',' << c.key_width << ',' << c.value_width << "->" << c.out_width << " biases "
         << c.query_bias << c.key_bias << c.value_bias << c.out_bias << (c.self ? " self" : "") << (c.packed ? " packed" : "")
         << (c.strided ? " strided" : "") << ' ' << c.attention;
    return text.str();
}

template<typename T> struct MultiHeadArrays {
    MultiHeadCase the;
    SdpaArrays<T> base;  // masks, lse and weights; its query, key and value are not used
    Array<T> query, key, value, out;
    Array<T> w_out, out_bias;
    std::vector<T> projections, biases;  // of query, key and value, one after another

    explicit MultiHeadArrays(const MultiHeadCase &c) : the(sized(c)), base(c.attention) {
        std::mt19937 random(c.attention.seed + 29);
        const SdpaCase &a = the.attention;
        const auto make = [&](const std::vector<std::int64_t> &extents, double spread) {
            Array<T> made = c.strided ? Array<T>(extents, padded_strides(extents)) : Array<T>(extents);
            made.randomise(random, spread);
            return made;
        };
        query = make({a.batch, a.queries, the.query_width}, 1.7);
        if (!the.self) key = make({a.batch, a.keys, the.key_width}, 1.7), value = make({a.batch, a.keys, the.value_width}, 1.7);
        const std::vector<std::int64_t> extents = {a.batch, a.queries, the.out_width};
        out = c.strided ? Array<T>(extents, padded_strides(extents)) : Array<T>(extents);
        w_out = make({the.out_width, a.query_heads * a.value_dim}, 1.7 / std::sqrt(double(a.query_heads * a.value_dim)));
        out_bias = Array<T>({the.out_width});
        out_bias.randomise(random, 1);
        std::uniform_real_distribution<double> uniform(-1, 1);
        const auto fill = [&](std::vector<T> &to, std::int64_t count, double spread) {
            for (std::int64_t n = 0; n < count; n++) to.push_back(T(spread * uniform(random)));
        };
        for (int n = 0; n < 3; n++) {
            fill(projections, hidden(n) * width(n), 1.7 / std::sqrt(double(width(n))));
            fill(biases, hidden(n), 1);
            if (!the.packed) fill(projections, 5, 1), fill(biases, 3, 1);
        }
    }

    // hidden: rows of the weights of query, key or value; width: channels of the input.
    std::int64_t hidden(int n) const {
        const SdpaCase &a = the.attention;
        return n == 0 ? a.query_heads * a.head_dim : n == 1 ? a.key_heads * a.head_dim : a.key_heads * a.value_dim;
    }
    std::int64_t width(int n) const { return n == 0 ? the.query_width : n == 1 ? the.key_width : the.value_width; }

    attune::View key_view() { return the.self ? query.view() : key.view(); }
    attune::View value_view() { return the.self ? query.view() : value.view(); }
    attune::MultiHeadWeights weights() {
        attune::MultiHeadWeights w;
        attune::ConstView *const to[] = {&w.query, &w.key, &w.value}, *const bias[] = {&w.query_bias, &w.key_bias,
                                                                                       &w.value_bias};
        const bool given[] = {the.query_bias, the.key_bias, the.value_bias};
        const T *at = projections.data(), *bias_at = biases.data();
        for (int n = 0; n < 3; n++) {
            *to[n] = attune::ConstView(at, {hidden(n), width(n)});
            if (given[n]) *bias[n] = attune::ConstView(bias_at, {hidden(n)});
            at += hidden(n) * width(n) + (the.packed ? 0 : 5), bias_at += hidden(n) + (the.packed ? 0 : 3);
        }
        w.out = w_out.view();
        if (the.out_bias) w.out_bias = out_bias.view();
        return w;
    }
    attune::MultiHeadOptions options(std::string_view variant = {}) {
        const SdpaCase &a = the.attention;
        return {.heads = a.query_heads,
                .key_heads = a.key_heads == a.query_heads ? 0 : a.key_heads,
                .attention = base.options(variant)};
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}) {
        return attune::multi_head_attention(context, query.view(), key_view(), value_view(), weights(), out.view(),
                                            options(variant));
    }
    template<typename Real, typename Stored = Real> SdpaResult<Real> reference() {
        return multi_head_reference<Real, T, Stored>(query.view(), key_view(), value_view(), weights(), options());
    }

private:
    static MultiHeadCase sized(MultiHeadCase c) {
        if (c.self) c.key_width = c.value_width = c.query_width, c.attention.keys = c.attention.queries;
        return c;
    }
};

template<typename T> std::string defect(MultiHeadArrays<T> &a) {
    if (!a.out.gaps_untouched()) return "out: written beyond its elements";
    if (!a.out.all_written()) return "out: not all elements written";
    const auto reference = a.template reference<Reference<T>>();
    const auto plain = a.template reference<Sum<T>, T>();
    const auto judged = [](const char *name, const auto &expected, const auto &in_type, const auto &got) {
        const Verdict verdict = judge(expected, in_type, got);
        return verdict.right ? std::string() : name + verdict.why;
    };
    std::string found = judged("out: ", reference.out, plain.out, a.out.values());
    if (found.empty()) found = judged("lse: ", reference.lse, plain.lse, a.base.lse.values());
    if (found.empty() && a.the.attention.weights)
        found = judged("weights: ", reference.weights, plain.weights, a.base.weights.values());
    return found;
}

template<typename T> void check_case(attune::Context &context, const MultiHeadCase &c, std::string_view variant = {}) {
    check_arrays(context, MultiHeadArrays<T>(c), variant);
}

}  // namespace attune_test
