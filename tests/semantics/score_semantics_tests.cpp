// SPDX-License-Identifier: MIT
// docs/conventions.md rows 1, 3, 4, 10, 12, 23, 24 and 28 through the dispatcher, against numbers worked out by hand.
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::Score, attune::SdpaOptions, attune::View, attune::WeightsMode;

namespace {
constexpr float infinity = std::numeric_limits<float>::infinity();

bool close(const std::vector<float> &got, const std::vector<double> &expected, double tolerance = 1e-6) {
    if (got.size() != expected.size()) return false;
    for (std::size_t n = 0; n < got.size(); n++)
        if (!(std::abs(got[n] - expected[n]) <= tolerance * std::max(1.0, std::abs(expected[n]))) && got[n] != expected[n])
            return false;
    return true;
}

// Scores or weights of one head: query (Sq, d), key (Sk, d), arbitrary values.
std::vector<float> scores(const std::vector<float> &query, std::int64_t queries, const std::vector<float> &key,
                          std::int64_t keys, SdpaOptions options, WeightsMode mode) {
    attune::Context context;
    const std::vector<float> value(std::size_t(keys), 1.f);
    std::vector<float> out(std::size_t(queries), -7.f), weights(std::size_t(queries * keys), -7.f);
    options.weights = View(weights.data(), {queries, keys}), options.weights_mode = mode;
    const auto status =
        attune::scaled_dot_product_attention(context, ConstView(query.data(), {queries, std::int64_t(query.size()) / queries}),
                                             ConstView(key.data(), {keys, std::int64_t(key.size()) / keys}),
                                             ConstView(value.data(), {keys, 1}), View(out.data(), {queries, 1}), options);
    INFO(status.message());
    REQUIRE(status.ok());
    return weights;
}
const std::vector<float> zeros(4, 0.f);
}  // namespace

TEST_CASE("scores: each by hand", "[sdpa][semantics]") {
    const std::vector<float> q = {1, 2}, k = {3, 1, 0, -1, 0, 0};
    const auto of = [&](SdpaOptions o) { return scores(q, 1, k, 3, o, WeightsMode::scaled); };
    CHECK(close(of({}), {5 / std::sqrt(2.0), -2 / std::sqrt(2.0), 0}));
    CHECK(close(of({.scale = 2.0}), {10, -4, 0}));
    CHECK(close(of({.score = Score::cosine}), {5 / std::sqrt(50.0), -2 / std::sqrt(5.0), 0}));
    CHECK(close(of({.score = Score::cosine, .scale = 3.0}), {15 / std::sqrt(50.0), -6 / std::sqrt(5.0), 0}));
    CHECK(close(of({.score = Score::gaussian}), {-2.5, -5, -2.5}));
    CHECK(close(of({.score = Score::gaussian, .scale = 0.5}), {-1.25, -2.5, -1.25}));
    const std::vector<float> w = {1, 0, 2, 0, 1, 0}, wide = {1, 1, 1, 5, 0, -1};
    const SdpaOptions general{.score = Score::general, .score_weight = ConstView(w.data(), {2, 3})};
    CHECK(close(scores(q, 1, wide, 2, general, WeightsMode::scaled), {5, 3}));  // W k = (3, 1), (3, 0)
}

TEST_CASE("scores: the order is scale, softcap, bias, ALiBi, mask", "[sdpa][semantics]") {
    const std::vector<float> q = {4}, k = {1, 2, 3};
    const float bias[] = {100, -infinity, 0.5f}, slopes[] = {0.25f};
    const bool mask[] = {true, true, false};
    const SdpaOptions o{.scale = 0.5,
                        .softcap = 3,
                        .bias = ConstView(bias, {3}),
                        .alibi_slopes = ConstView(slopes, {1}),
                        .mask = ConstView(mask, {3})};
    const double capped[] = {3 * std::tanh(2 / 3.0), 3 * std::tanh(4 / 3.0), 3 * std::tanh(2.0)};
    CHECK(close(scores(q, 1, k, 3, o, WeightsMode::scaled), {2, 4, 6}));
    CHECK(close(scores(q, 1, k, 3, o, WeightsMode::capped), {capped[0], capped[1], capped[2]}));
    // off is Sk - Sq = 2: the position of the query is the last key.
    CHECK(close(scores(q, 1, k, 3, o, WeightsMode::masked), {capped[0] + 100 - 0.5, -infinity, -infinity}));
    CHECK(close(scores(q, 1, k, 3, o, WeightsMode::probabilities), {1, 0, 0}));
}

TEST_CASE("ALiBi: distances from i + off, off as for causal but Sk - Sq by default", "[sdpa][semantics]") {
    const float slope[] = {1};
    const std::int32_t offsets[] = {-1};
    const auto of = [&](SdpaOptions o) {
        o.alibi_slopes = ConstView(slope, {1});
        return scores({0, 0}, 2, zeros, 4, o, WeightsMode::masked);
    };
    CHECK(of({}) == std::vector<float>{-2, -1, 0, -1, -3, -2, -1, 0});
    CHECK(of({.causal = Causal::top_left}) ==
          std::vector<float>{0, -infinity, -infinity, -infinity, -1, 0, -infinity, -infinity});
    CHECK(of({.causal = Causal::bottom_right}) == std::vector<float>{-2, -1, 0, -infinity, -3, -2, -1, 0});
    CHECK(of({.offset = 0}) == std::vector<float>{0, -1, -2, -3, -1, 0, -1, -2});
    CHECK(of({.offsets = ConstView(offsets, {1})}) == std::vector<float>{-1, -2, -3, -4, 0, -1, -2, -3});
    CHECK(of({.window = {0, -1}}) == std::vector<float>{-2, -1, 0, -1, -infinity, -2, -1, 0});  // the window's off is 0
}

TEST_CASE("ALiBi: the standard slopes, also for heads that are no power of two", "[sdpa][semantics]") {
    const auto near = [](const std::vector<float> &a, const std::vector<double> &b) { return close(a, b, 1e-7); };
    CHECK(near(attune::alibi_slopes(1), {1 / 256.0}));
    CHECK(near(attune::alibi_slopes(2), {1 / 16.0, 1 / 256.0}));
    CHECK(near(attune::alibi_slopes(8), {0.5, 0.25, 0.125, 1 / 16.0, 1 / 32.0, 1 / 64.0, 1 / 128.0, 1 / 256.0}));
    // Three heads: the slopes of two, then every other one of four.
    CHECK(near(attune::alibi_slopes(3), {1 / 16.0, 1 / 256.0, 0.25}));
    CHECK(near(attune::alibi_slopes(6), {0.25, 1 / 16.0, 1 / 64.0, 1 / 256.0, 0.5, 0.125}));
    const auto twelve = attune::alibi_slopes(12);
    REQUIRE(twelve.size() == 12);
    CHECK(std::abs(twelve[8] - std::exp2(-0.5)) < 1e-7);
    CHECK(std::abs(twelve[11] - std::exp2(-3.5)) < 1e-7);
    CHECK(attune::alibi_slopes(0).empty());
    CHECK(attune::alibi_slopes(-3).empty());
}

TEST_CASE("masks: true takes part, lower ranks are aligned on the right", "[sdpa][semantics]") {
    const bool keys[] = {true, false, true}, queries[] = {true, false}, both[] = {false, true, true, true, true, false};
    const auto of = [&](ConstView mask) { return scores({0, 0}, 2, {0, 0, 0}, 3, {.mask = mask}, WeightsMode::probabilities); };
    CHECK(close(of(ConstView(keys, {3})), {0.5, 0, 0.5, 0.5, 0, 0.5}));
    CHECK(close(of(ConstView(keys, {1, 3})), {0.5, 0, 0.5, 0.5, 0, 0.5}));
    CHECK(close(of(ConstView(queries, {2, 1})), {1 / 3.0, 1 / 3.0, 1 / 3.0, 0, 0, 0}));
    CHECK(close(of(ConstView(both, {2, 3})), {0, 0.5, 0.5, 0.5, 0.5, 0}));
    CHECK(close(of(ConstView(both, {1, 1})), {0, 0, 0, 0, 0, 0}));
    CHECK(
        close(of(ConstView(both, {2, 1}, {1, 77})), {0, 0, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0}));  // a stride of one element is free
}

TEST_CASE("masks: what counts as masked in a bias", "[sdpa][semantics]") {
    const auto of = [&](std::vector<float> bias) {
        return scores({0}, 1, {0, 0}, 2, {.bias = ConstView(bias.data(), {2})}, WeightsMode::masked);
    };
    CHECK(of({-infinity, 0}) == std::vector<float>{-infinity, 0});
    CHECK(of({-3.4028235e38f, 0}) == std::vector<float>{-infinity, 0});
    CHECK(of({-3.01e38f, 1}) == std::vector<float>{-infinity, 1});
    CHECK(of({-2.99e38f, 1}) == std::vector<float>{-2.99e38f, 1});
    CHECK(of({-1e30f, 1}) == std::vector<float>{-1e30f, 1});  // a finite mask elsewhere, here a number like any other
    CHECK(of({-1e9f, 1}) == std::vector<float>{-1e9f, 1});
}

TEST_CASE("masks: a row of -1e9 everywhere is no row without keys", "[sdpa][semantics]") {
    // Document 002 adds mask * -1e9: where all keys are masked, its softmax is over the scores as they round.
    const float bias[] = {-1e9f, -1e9f, -1e9f, -1e9f};
    CHECK(
        close(scores({0}, 1, zeros, 4, {.bias = ConstView(bias, {4})}, WeightsMode::probabilities), {0.25, 0.25, 0.25, 0.25}));
}

TEST_CASE("sinks: a score without a value", "[sdpa][semantics]") {
    attune::Context context;
    const float query[] = {0}, key[] = {0, 0, 0}, value[] = {1, 2, 6}, sink[] = {std::log(3.f)};
    const std::int32_t none[] = {0};
    float out = 0, lse = 0;
    SdpaOptions o{.softcap = 0.1, .sinks = ConstView(sink, {1}), .lse = View(&lse, {1})};
    const auto run = [&] {
        return attune::scaled_dot_product_attention(context, ConstView(query, {1, 1}), ConstView(key, {3, 1}),
                                                    ConstView(value, {3, 1}), View(&out, {1, 1}), o);
    };
    REQUIRE(run().ok());
    CHECK(close({out, lse}, {9 / 6.0, std::log(6.0)}));  // three keys, and a sink worth three, which softcap leaves alone
    o.valid_lens = ConstView(none, {1});
    REQUIRE(run().ok());
    CHECK(close({out, lse}, {0, std::log(3.0)}));
    const float nothing[] = {-infinity};
    o.sinks = ConstView(nothing, {1});
    REQUIRE(run().ok());
    CHECK(out == 0);
    CHECK(lse == -infinity);
}

TEST_CASE("weights: the mean over heads", "[sdpa][semantics]") {
    attune::Context context;
    const float query[] = {0, 1}, key[] = {0, 1}, value[] = {1, 2};  // two heads on one key head, scores (0, 0) and (0, 1)
    float out[2] = {}, weights[2] = {};
    REQUIRE(attune::scaled_dot_product_attention(context, ConstView(query, {1, 2, 1, 1}), ConstView(key, {1, 1, 2, 1}),
                                                 ConstView(value, {1, 1, 2, 1}), View(out, {1, 2, 1, 1}),
                                                 {.weights = View(weights, {1, 1, 2}), .average_weights = true})
                .ok());
    const double w = 1 / (1 + std::exp(1.0));
    CHECK(close({weights[0], weights[1]}, {(0.5 + w) / 2, (1.5 - w) / 2}));
    CHECK(close({out[0], out[1]}, {1.5, 2 - w}));
}

TEST_CASE("scores: a scale of 0 is average pooling, whatever the score", "[sdpa][semantics]") {
    attune::Context context;
    for (Score score : {Score::dot_product, Score::cosine, Score::gaussian}) {
        SdpaCase c{.queries = 3, .keys = 60, .value_dim = 5, .score = score, .scale = 0.0, .valid_lens = {60, 7}};
        SdpaArrays<double> a(c);
        REQUIRE(a.run(context).ok());
        CHECK(defect(a) == "");
        for (std::int64_t b : {0, 1}) {
            double mean = 0;
            for (std::int64_t j = 0; j < c.valid_lens[std::size_t(b)]; j++)
                mean += a.value(b, 1, j, 2) / c.valid_lens[std::size_t(b)];
            CHECK(std::abs(a.out(b, 1, 2, 2) - mean) < 1e-14);
        }
    }
}

TEST_CASE("scores: a narrow Gaussian takes the nearest key", "[sdpa][semantics]") {
    attune::Context context;
    const float query[] = {0.2f, 4.6f, -3}, key[] = {0, 1, 2, 3, 4, 5}, value[] = {10, 11, 12, 13, 14, 15};
    float out[3] = {};
    REQUIRE(attune::scaled_dot_product_attention(context, ConstView(query, {3, 1}), ConstView(key, {6, 1}),
                                                 ConstView(value, {6, 1}), View(out, {3, 1}),
                                                 {.score = Score::gaussian, .scale = 1e4})
                .ok());
    CHECK(close({out[0], out[1], out[2]}, {10, 15, 10}));
}

TEST_CASE("scores: Nadaraya-Watson regression of 2 sin x + x^0.8", "[sdpa][semantics]") {
    // The example of the textbook's chapter on attention pooling: weights exp(-(x - x_i)^2 / 2), normalised.
    attune::Context context;
    std::vector<double> x_train, y_train, x_test, out(50, 0);
    for (int n = 0; n < 50; n++) {
        x_train.push_back(n * 0.1), x_test.push_back(n * 0.1 + 0.05);
        y_train.push_back(2 * std::sin(x_train.back()) + std::pow(x_train.back(), 0.8));
    }
    REQUIRE(attune::scaled_dot_product_attention(context, ConstView(x_test.data(), {50, 1}), ConstView(x_train.data(), {50, 1}),
                                                 ConstView(y_train.data(), {50, 1}), View(out.data(), {50, 1}),
                                                 {.score = Score::gaussian})
                .ok());
    double worst = 0;
    for (std::size_t i = 0; i < 50; i++) {
        double sum = 0, pv = 0;
        for (std::size_t j = 0; j < 50; j++) {
            const double w = std::exp(-(x_test[i] - x_train[j]) * (x_test[i] - x_train[j]) / 2);
            sum += w, pv += w * y_train[j];
        }
        worst = std::max(worst, std::abs(out[i] - pv / sum));
    }
    CHECK(worst < 1e-13);
}
