// SPDX-License-Identifier: MIT
// Random arrays for a case of scaled_dot_product_attention, the call, and the check of its outputs.
#pragma once
#include "tests/reference/sdpa_reference.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include "tests/support/sdpa_case.h"
#include <random>

namespace attune_test {

// Strides of rows with gaps between them; the last is 1.
inline std::vector<std::int64_t> padded_strides(const std::vector<std::int64_t> &extents) {
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t next = 1;
    for (std::size_t n = extents.size(); n-- > 0;) strides[n] = next, next = next * extents[n] + 3;
    return strides;
}

template<typename T> struct SdpaArrays {
    SdpaCase the;
    Array<T> query, key, value, out;
    Array<Sum<T>> lse;
    Array<T> score_weight, bias, weights;
    Array<bool> mask;
    Array<float> slopes, sinks;

    explicit SdpaArrays(const SdpaCase &c)
        : the(c), query({c.batch, c.query_heads, c.queries, c.head_dim}, c.query_layout),
          key({c.batch, c.key_heads, c.keys, c.key_dim ? c.key_dim : c.head_dim}, c.key_layout),
          value({c.batch, c.key_heads, c.keys, c.value_dim}, c.value_layout),
          out({c.batch, c.query_heads, c.queries, c.value_dim}, c.out_layout, poison<T>(2)),
          lse({c.batch, c.query_heads, c.queries},
              c.strided_lse ? std::vector<std::int64_t>{2 * c.query_heads, 2, 2 * c.batch * c.query_heads + 3}
                            : std::vector<std::int64_t>{c.query_heads * c.queries, c.queries, 1},
              poison<Sum<T>>(2)) {
        std::mt19937 random(c.seed);
        query.randomise(random, c.spread);
        key.randomise(random, c.spread);
        value.randomise(random, 1.7);
        if (c.key_noise) gather_keys(random);
        if (c.score == attune::Score::general) {
            score_weight = rows_array<T>({c.head_dim, key.view().extent[3]});
            score_weight.randomise(random, 1.7 / std::sqrt(double(c.head_dim * key.view().extent[3])));
        }
        make_masks(random);
        if (c.weights) {
            std::vector<std::int64_t> extents = {c.batch, c.query_heads, c.queries, c.keys};
            if (c.average_weights) extents.erase(extents.begin() + 1);
            weights = rows_array<T>(extents);
        }
    }

    // Options that point into this object and into variant.
    attune::SdpaOptions options(std::string_view variant) {
        attune::SdpaOptions o;
        o.score = the.score, o.scale = the.scale, o.softcap = the.softcap;
        if (the.score == attune::Score::general) o.score_weight = score_weight.view();
        if (!the.bias.empty()) o.bias = bias.view();
        if (!the.mask.empty()) o.mask = mask.view();
        o.alibi = the.alibi == Alibi::standard;
        if (the.alibi > Alibi::standard) o.alibi_slopes = slopes.view();
        o.causal = the.causal, o.offset = the.offset, o.window = the.window;
        if (!the.offsets.empty()) o.offsets = attune::ConstView(the.offsets.data(), {the.batch});
        if (!the.valid_lens.empty()) {
            const bool per_query = the.valid_lens.size() != std::size_t(the.batch);
            o.valid_lens = per_query ? attune::ConstView(the.valid_lens.data(), {the.batch, the.queries})
                                     : attune::ConstView(the.valid_lens.data(), {the.batch});
        }
        if (the.sinks) o.sinks = sinks.view();
        o.dropout = the.dropout, o.lse = lse.view();
        if (the.weights) o.weights = weights.view(), o.weights_mode = *the.weights, o.average_weights = the.average_weights;
        o.variant = variant;
        return o;
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}) {
        return attune::scaled_dot_product_attention(context, query.view(), key.view(), value.view(), out.view(),
                                                    options(variant));
    }
    // Whether key j takes part for query i of head h of batch entry b.
    bool kept(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        const attune::SdpaOptions o = options({});
        return takes_part(o, b, i, j, the.queries, the.keys) && let_through<T>(o, 4, b, h, i, j);
    }

private:
    template<typename E> Array<E> rows_array(const std::vector<std::int64_t> &extents) {
        return the.strided_masks ? Array<E>(extents, padded_strides(extents)) : Array<E>(extents);
    }
    // Extents of a shape such as "b1ij".
    std::vector<std::int64_t> extents_of(const std::string &shape) const {
        const std::int64_t full[] = {the.batch, the.query_heads, the.queries, the.keys};
        std::vector<std::int64_t> extents;
        for (std::size_t n = 0; n < shape.size(); n++) extents.push_back(shape[n] == '1' ? 1 : full[4 - shape.size() + n]);
        return extents;
    }
    // Index of the last query's last row, for shapes where every query and key has its own element; else the end.
    std::int64_t first_of_last_row(const std::string &shape) const {
        std::int64_t count = 1;
        for (std::int64_t extent : extents_of(shape)) count *= extent;
        return shape.size() > 1 && shape.substr(shape.size() - 2) == "ij" && the.queries > 1 ? count - the.keys : count;
    }
    void make_masks(std::mt19937 &random) {
        std::uniform_real_distribution<double> uniform(0, 1);
        if (!the.bias.empty()) {
            bias = rows_array<T>(extents_of(the.bias));
            bias.randomise(random, 3);
            const bool masks = the.hole && *the.hole < -1e30;
            std::int64_t n = 0, row = first_of_last_row(the.bias);
            bias.each([&](T &x) {
                if (the.hole && (uniform(random) < 0.33 || (masks && n >= row))) x = T(*the.hole);
                n++;
            });
        }
        if (!the.mask.empty()) {
            mask = rows_array<bool>(extents_of(the.mask));
            std::int64_t n = 0, row = first_of_last_row(the.mask);
            mask.each([&](bool &x) { x = uniform(random) > 0.33 && n < row, n++; });
        }
        const std::int64_t heads = the.query_heads, direction = the.strided_masks ? -2 : 1;
        if (the.alibi == Alibi::per_head) slopes = Array<float>({heads}, {direction});
        if (the.alibi == Alibi::per_batch) slopes = Array<float>({the.batch, heads}, {direction * heads, direction});
        slopes.each([&](float &x) { x = float(uniform(random)) / 4; });
        if (the.sinks) sinks = Array<float>({heads}, {direction});
        sinks.each([&](float &x) { x = float(6 * uniform(random) - 2); });
    }
    void gather_keys(std::mt19937 &random) {
        std::uniform_real_distribution<double> anchor(-the.spread, the.spread), noise(-*the.key_noise, *the.key_noise);
        for (std::int64_t b = 0; b < the.batch; b++)
            for (std::int64_t h = 0; h < the.key_heads; h++)
                for (std::int64_t d = 0; d < the.head_dim; d++) {
                    const double at = anchor(random);
                    for (std::int64_t j = 0; j < the.keys; j++) key(b, h, j, d) = T((j % 2 ? -at : at) + noise(random));
                }
    }
};

// Whether query i of head h of batch entry b has the same bits in both.
template<typename T> bool same_row(SdpaArrays<T> &a, SdpaArrays<T> &other, std::int64_t b, std::int64_t h, std::int64_t i) {
    bool same = same_bits(a.lse(b, h, i), other.lse(b, h, i));
    for (std::int64_t d = 0; d < a.the.value_dim; d++) same = same && same_bits(a.out(b, h, i, d), other.out(b, h, i, d));
    return same;
}

// Fault of the outputs as memory; empty if there is none.
template<typename T> std::string untouched_defect(SdpaArrays<T> &a) {
    if (!a.out.gaps_untouched()) return "out: written beyond its elements";
    if (!a.lse.gaps_untouched()) return "lse: written beyond its elements";
    if (!a.out.all_written()) return "out: not all elements written";
    if (!a.lse.all_written()) return "lse: not all elements written";
    if (!a.the.weights) return {};
    if (!a.weights.gaps_untouched()) return "weights: written beyond its elements";
    if (!a.weights.all_written()) return "weights: not all elements written";
    return {};
}
// Fault of the outputs' values; `ratio` becomes the largest error over its bound.
template<typename Real, typename T>
std::string value_defect(const SdpaResult<Real> &reference, const SdpaResult<Sum<T>> &plain, SdpaArrays<T> &a,
                         double *ratio = nullptr) {
    std::string found;
    // Kernels of bf16 have weights exact to 3e-6 (docs/numerics.md), and the error of lse is the relative error of their sum.
    std::vector<Real> lse_sizes = reference.lse;
    if (std::is_same_v<T, BFloat16>)
        for (Real &x : lse_sizes) x = std::abs(x) + Real(3e-6 / floor_of<Sum<T>>());
    const auto judge_one = [&](const std::string &name, const auto &expected, const auto &in_type, const auto &got) {
        if (!found.empty()) return;
        const Verdict verdict = judge(expected, in_type, got, name == "lse" ? lse_sizes : expected);
        if (ratio) *ratio = std::max(*ratio, verdict.ratio);
        if (!verdict.right)
            found = name + ": " + verdict.why;
        else if (name != "lse" && suspiciously_empty(in_type, got))
            found = name + ": zeros where the reference has none";
    };
    judge_one("out", reference.out, plain.out, a.out.values());
    judge_one("lse", reference.lse, plain.lse, a.lse.values());
    if (a.the.weights) judge_one("weights", reference.weights, plain.weights, a.weights.values());
    return found;
}
template<typename T> std::string defect(SdpaArrays<T> &a) {
    if (const std::string untouched = untouched_defect(a); !untouched.empty()) return untouched;
    const auto q = a.query.view(), k = a.key.view(), v = a.value.view();
    const auto options = a.options({});
    return value_defect(sdpa_reference<Reference<T>, T>(q, k, v, options), plain_sdpa<T>(q, k, v, options), a);
}

// Runs a case of any attention and checks everything that it wrote. False if it was refused.
template<typename Arrays> bool check_arrays(attune::Context &context, Arrays &&arrays, std::string_view variant) {
    const attune::Status status = arrays.run(context, variant);
    INFO(describe(arrays.the));
    INFO("ran " << context.last_variant() << ' ' << status.message());
    CHECK(status.ok());
    if (status.ok()) CHECK(defect(arrays) == "");
    return status.ok();
}

template<typename T> void check_case(attune::Context &context, const SdpaCase &c, std::string_view variant = {}) {
    const bool ran = check_arrays(context, SdpaArrays<T>(c), variant);
    INFO(describe(c));
    if (ran && !variant.empty() && !c.weights) CHECK(context.last_variant() == variant);
}

}  // namespace attune_test
