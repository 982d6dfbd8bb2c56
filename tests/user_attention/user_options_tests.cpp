// SPDX-License-Identifier: MIT
// A user's attention with the options of every attention, against the library's own with the same mask as a tensor; and in
// 16-bit types.
#include "alibi_attention.h"
#include "alibi_of_16_bits.h"
#include "prefix_attention.h"
#include "tests/support/half_elements.h"
#include "tests/user_attention/user_attention_case.h"
#include <memory>

using namespace attune_test;

namespace {

constexpr Index entries = 2, query_heads = 4, key_heads = 2, head_size = 16;

// The mask of prefix_attention as an option of the library.
struct PrefixCase {
    Index queries, keys;
    std::vector<std::int32_t> prefix = {5, 40};
    std::unique_ptr<bool[]> mask;
    std::vector<float> query, key, value, grad_out, sinks = {0.5f, -1, 2, 0};

    PrefixCase(Index q, Index k) : queries(q), keys(k), mask(new bool[std::size_t(entries * q * k)]) {
        std::mt19937 random(9);
        std::normal_distribution<float> normal;
        query.resize(std::size_t(entries * query_heads * q * head_size)), grad_out = query;
        key.resize(std::size_t(entries * key_heads * k * head_size)), value = key;
        for (auto *x : {&query, &key, &value, &grad_out})
            for (float &e : *x) e = normal(random);
        for (Index b = 0; b < entries; b++)
            for (Index i = 0; i < q; i++)
                for (Index j = 0; j < k; j++)
                    mask[std::size_t((b * q + i) * k + j)] = j < prefix[std::size_t(b)] || j <= i + k - q;
    }
    attune::ConstView mask_view() const { return attune::ConstView(mask.get(), {entries, 1, queries, keys}); }
    attune::View of_queries(std::vector<float> &x) {
        return attune::View(x.data(), {entries, query_heads, queries, head_size});
    }
    attune::View of_keys(std::vector<float> &x) { return attune::View(x.data(), {entries, key_heads, keys, head_size}); }
};

double largest_difference(const std::vector<float> &x, const std::vector<float> &y) {
    double most = 0;
    for (std::size_t n = 0; n < x.size(); n++) most = std::max(most, std::abs(double(x[n]) - double(y[n])));
    return std::all_of(x.begin(), x.end(), [](float e) { return std::isfinite(e); }) ? most : INFINITY;
}

}  // namespace

TEST_CASE("a user's mask with every option is the library's own mask with them", "[user_attention]") {
    attune::Context context({.threads = 2});
    for (const auto &[queries, keys] : {std::pair(70, 150), {1, 300}, {6, 150}}) {
        PrefixCase c(queries, keys);
        attune::SdpaOptions plain, scored, training;
        scored.softcap = 2, scored.alibi = true, scored.sinks = attune::ConstView(c.sinks.data(), {query_heads});
        training = scored, training.dropout = {0.25, 77, 0};
        for (const attune::SdpaOptions &options : {plain, scored, training}) {
            CAPTURE(queries, keys, options.softcap, options.dropout.probability);
            std::vector<float> out[2], lse[2], weights[2], grad_query[2], grad_key[2], grad_value[2];
            for (const int user : {0, 1}) {
                out[user].resize(c.query.size()), lse[user].resize(std::size_t(entries * query_heads * queries));
                weights[user].resize(std::size_t(entries * query_heads * queries * keys));
                grad_query[user].resize(c.query.size()), grad_key[user].resize(c.key.size()),
                    grad_value[user].resize(c.key.size());
                attune::SdpaOptions o = options;
                o.lse = attune::View(lse[user].data(), {entries, query_heads, queries});
                o.weights = attune::View(weights[user].data(), {entries, query_heads, queries, keys});
                if (!user) o.mask = c.mask_view();
                const attune::ConstView prefix(c.prefix.data(), {entries});
                const auto q = c.of_queries(c.query), k = c.of_keys(c.key), v = c.of_keys(c.value);
                attune::Status s =
                    user ? prefix_attention::forward(context, q, k, v, c.of_queries(out[1]), {.prefix = prefix, .sdpa = o})
                         : attune::scaled_dot_product_attention(context, q, k, v, c.of_queries(out[0]), o);
                INFO(s.message());
                REQUIRE(s.ok());
                const attune::SdpaForward forward{c.of_queries(out[user]), o.lse, c.of_queries(c.grad_out), {}};
                const attune::SdpaGradients gradients{.query = c.of_queries(grad_query[user]),
                                                      .key = c.of_keys(grad_key[user]),
                                                      .value = c.of_keys(grad_value[user])};
                o.lse = o.weights = {};
                s = user ? prefix_attention::backward(context, q, k, v, forward, {.sdpa = gradients},
                                                      {.prefix = prefix, .sdpa = o})
                         : attune::scaled_dot_product_attention_backward(context, q, k, v, forward, gradients, o);
                INFO(s.message());
                REQUIRE(s.ok());
            }
            // Both are right by the rule of the other tests; here they only have to be the same function.
            CHECK(largest_difference(out[0], out[1]) < 4e-6);
            CHECK(largest_difference(lse[0], lse[1]) < 4e-6);
            CHECK(largest_difference(weights[0], weights[1]) < 2e-6);
            CHECK(largest_difference(grad_query[0], grad_query[1]) < 2e-5);
            CHECK(largest_difference(grad_key[0], grad_key[1]) < 2e-5);
            CHECK(largest_difference(grad_value[0], grad_value[1]) < 2e-5);
        }
    }
}

TEMPLATE_TEST_CASE("a user's attention in 16 bits is that of f32 on the rounded inputs", "[user_attention][16_bits]", BFloat16,
                   Float16) {
    using Half = TestType;
    attune::Context context({.threads = 1});
    const Index queries = 70, keys = 150;
    std::mt19937 random(4);
    std::normal_distribution<double> normal;
    // Equal numbers in both types.
    std::vector<Half> half[4];
    std::vector<float> wide[4];
    const Index sizes[] = {queries, keys, keys, queries};
    for (int n = 0; n < 4; n++)
        for (Index m = 0; m < query_heads * sizes[n] * head_size; m++) {
            half[n].push_back(Half(normal(random)));
            wide[n].push_back(float(half[n].back()));
        }
    std::vector<float> slopes = {0.5f, 0.25f, 0.125f, 0.0625f};
    const attune::ConstView captured(slopes.data(), {query_heads});
    const auto run = [&](auto &x, auto forward, auto backward) {
        using T = typename std::decay_t<decltype(x[0])>::value_type;
        std::vector<std::vector<T>> out = {x[0], x[0], x[1], x[2]};  // out, and gradients of query, key, value
        std::vector<float> lse(std::size_t(query_heads * queries)), slope(slopes.size());
        const auto view = [&](std::vector<T> &v, Index count) {
            return attune::View(v.data(), {1, query_heads, count, head_size});
        };
        attune::SdpaOptions options;
        options.lse = attune::View(lse.data(), {1, query_heads, queries});
        attune::Status s =
            forward(context, view(x[0], queries), view(x[1], keys), view(x[2], keys), view(out[0], queries), options);
        INFO(s.message());
        REQUIRE(s.ok());
        s = backward(
            context, view(x[0], queries), view(x[1], keys), view(x[2], keys),
            attune::SdpaForward{view(out[0], queries), options.lse, view(x[3], queries), {}},
            attune::SdpaGradients{.query = view(out[1], queries), .key = view(out[2], keys), .value = view(out[3], keys)},
            attune::View(slope.data(), {query_heads}));
        INFO(s.message());
        REQUIRE(s.ok());
        std::vector<std::vector<float>> results;
        for (const auto &v : out) results.emplace_back(v.begin(), v.end());
        results.push_back(lse), results.push_back(slope);
        return results;
    };
    using attune::ConstView, attune::View, attune::SdpaForward, attune::SdpaGradients, attune::SdpaOptions, attune::Context;
    const auto of_half = run(
        half,
        [&](Context &c, View q, View k, View v, View out, const SdpaOptions &o) {
            return alibi_of_16_bits::forward(c, q, k, v, out, {.slopes = captured, .sdpa = o});
        },
        [&](Context &c, View q, View k, View v, const SdpaForward &f, const SdpaGradients &g, View slope) {
            return alibi_of_16_bits::backward(c, q, k, v, f, {.sdpa = g, .slopes = slope}, {.slopes = captured});
        });
    const auto of_float = run(
        wide,
        [&](Context &c, View q, View k, View v, View out, const SdpaOptions &o) {
            return alibi_attention::forward(c, q, k, v, out, {.slopes = captured, .sdpa = o});
        },
        [&](Context &c, View q, View k, View v, const SdpaForward &f, const SdpaGradients &g, View slope) {
            return alibi_attention::backward(c, q, k, v, f, {.sdpa = g, .slopes = slope}, {.slopes = captured});
        });
    // out is rounded, and the gradients use the rounded out.
    const double unit = double(std::numeric_limits<Half>::epsilon());
    for (std::size_t n = 0; n < of_half.size(); n++) {
        CAPTURE(n);
        double largest = 0;
        for (const float x : of_float[n]) largest = std::max(largest, std::abs(double(x)));
        CHECK(largest_difference(of_half[n], of_float[n]) < 2 * unit * largest);
    }
}
