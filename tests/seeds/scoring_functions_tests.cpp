// SPDX-License-Identifier: MIT
// Documents 000 (attention scoring functions) and 001 (the same chapter as a notebook, with its mistakes).
#include "tests/seeds/documents.h"

using namespace attune_test;
using attune::ConstView, attune::MaskFill, attune::View;

namespace {
// values = arange(40) as (1, 10, 4), repeated over the batch.
std::vector<float> values_000() {
    std::vector<float> value;
    for (int b = 0; b < 2; b++)
        for (int n = 0; n < 40; n++) value.push_back(float(n));
    return value;
}
const std::vector<double> expected_000 = {2, 3, 4, 5, 10, 11, 12, 13};
const std::vector<float> keys_000(2 * 10 * 2, 1.f);
const std::int32_t lens_000[] = {2, 6};

std::vector<float> dot_product_000(attune::Dropout dropout) {
    const auto query = normal_floats(2 * 1 * 2, 0), value = values_000();
    std::vector<float> out(8);
    attune::Context context;
    REQUIRE(attune::scaled_dot_product_attention(context, ConstView(query.data(), {2, 1, 2}),
                                                 ConstView(keys_000.data(), {2, 10, 2}), ConstView(value.data(), {2, 10, 4}),
                                                 View(out.data(), {2, 1, 4}),
                                                 {.valid_lens = ConstView(lens_000, {2}), .dropout = dropout})
                .ok());
    return out;
}

// AdditiveAttention(units = 8) with random weights, on the same arrays.
std::vector<float> additive_000(const attune::Dropout &dropout) {
    const auto query = normal_floats(2 * 1 * 2, 0), value = values_000();
    const auto w_query = normal_floats(8 * 2, 1), w_key = normal_floats(8 * 2, 2), w_score = normal_floats(8, 3);
    std::vector<float> out(8);
    attune::AdditiveOptions options{.w_query = ConstView(w_query.data(), {8, 2}), .w_key = ConstView(w_key.data(), {8, 2})};
    options.w_score = ConstView(w_score.data(), {8});
    options.attention.valid_lens = ConstView(lens_000, {2}), options.attention.dropout = dropout;
    attune::Context context;
    const auto status =
        attune::additive_attention(context, ConstView(query.data(), {2, 1, 2}), ConstView(keys_000.data(), {2, 10, 2}),
                                   ConstView(value.data(), {2, 10, 4}), View(out.data(), {2, 1, 4}), options);
    INFO(status.message());
    REQUIRE(status.ok());
    return out;
}

std::vector<float> softmax_of(const std::vector<float> &x, const ConstView &lens, MaskFill fill) {
    std::vector<float> out(16, -1.f);
    attune::Context context;
    const auto status = attune::masked_softmax(context, ConstView(x.data(), {2, 2, 4}), View(out.data(), {2, 2, 4}),
                                               {.valid_lens = lens, .fill = fill});
    INFO(status.message());
    REQUIRE(status.ok());
    return out;
}
std::vector<float> scores_000() {
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(0, 1);
    std::vector<float> x(16);
    for (float &e : x) e = uniform(random);
    return x;
}
// Checks the weights of rows whose first `kept` entries take part.
void check_rows(const std::vector<float> &weights, const std::vector<float> &x, const std::vector<int> &kept) {
    for (std::size_t row = 0; row < 4; row++) {
        double all = 0, sum = 0;
        for (int j = 0; j < kept[row]; j++) all += std::exp(double(x[row * 4 + std::size_t(j)]));
        for (int j = 0; j < 4; j++) {
            const float w = weights[row * 4 + std::size_t(j)];
            CHECK((j < kept[row] ? std::abs(w - std::exp(double(x[row * 4 + std::size_t(j)])) / all) < 1e-6 : w == 0));
            sum += w;
        }
        CHECK(std::abs(sum - 1) < 1e-6);
    }
}
const std::int32_t per_batch[] = {2, 3}, per_query[] = {1, 3, 2, 4};
}  // namespace

TEST_CASE("seed 000: masked_softmax, lengths [2, 3] and [[1, 3], [2, 4]]", "[seed]") {
    const auto x = scores_000();
    for (MaskFill fill : {MaskFill::zero, MaskFill::seed}) {
        check_rows(softmax_of(x, ConstView(per_batch, {2}), fill), x, {2, 2, 3, 3});
        check_rows(softmax_of(x, ConstView(per_query, {2, 2}), fill), x, {1, 3, 2, 4});
        check_rows(softmax_of(x, {}, fill), x, {4, 4, 4, 4});
    }
}

TEST_CASE("seed 000: masked_softmax of no length is uniform where masked is -1e6, and zero where it is minus infinity",
          "[seed]") {
    const auto x = scores_000();
    const std::int32_t lens[] = {0, 4};
    const auto seed = softmax_of(x, ConstView(lens, {2}), MaskFill::seed),
               zero = softmax_of(x, ConstView(lens, {2}), MaskFill::zero);
    for (std::size_t n = 0; n < 8; n++) CHECK(std::abs(seed[n] - 0.25) < 1e-7);
    for (std::size_t n = 0; n < 8; n++) CHECK(zero[n] == 0);
}

TEST_CASE("seed 000: weights of attention are masked alike", "[seed]") {
    // Scores are the query's channels on an identity of keys; values are an identity, so that out is the weights.
    const auto x = scores_000();
    std::vector<float> key, out(16);
    for (int b = 0; b < 2; b++)
        for (int n = 0; n < 16; n++) key.push_back(n % 5 == 0 ? 1.f : 0.f);
    attune::Context context;
    for (bool each : {false, true}) {
        const ConstView lens = each ? ConstView(per_query, {2, 2}) : ConstView(per_batch, {2});
        REQUIRE(attune::scaled_dot_product_attention(context, ConstView(x.data(), {2, 2, 4}), ConstView(key.data(), {2, 4, 4}),
                                                     ConstView(key.data(), {2, 4, 4}), View(out.data(), {2, 2, 4}),
                                                     {.scale = 1.0, .valid_lens = lens})
                    .ok());
        check_rows(out, x, each ? std::vector<int>{1, 3, 2, 4} : std::vector<int>{2, 2, 3, 3});
    }
}

TEST_CASE("seed 000 and 001: batch_dot of ones (2,1,3) and (2,3,2) is all 3", "[seed]") {
    const std::vector<float> a(2 * 1 * 3, 1.f), x(2 * 3 * 2, 1.f);
    std::vector<float> out(2 * 1 * 2);
    attune::Context context;
    const auto status =
        attune::batch_dot(context, ConstView(a.data(), {2, 1, 3}), ConstView(x.data(), {2, 3, 2}), View(out.data(), {2, 1, 2}));
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(out == std::vector<float>(4, 3.f));
}

TEST_CASE("seed 000: DotProductAttention, lengths 2 and 6 of ten equal keys", "[seed]") {
    CHECK(close_to(dot_product_000({}), expected_000));
}

TEST_CASE("seed 000: MLPAttention, the same output", "[seed]") { CHECK(close_to(additive_000({}), expected_000)); }

TEST_CASE("seed 000: dropout of 0.5 while training leaves the mean over many masks", "[seed]") {
    for (int layer : {0, 1}) {
        std::vector<double> mean(8, 0);
        const int masks = 2000;
        for (int n = 0; n < masks; n++) {
            const auto out = layer ? additive_000({0.5, std::uint64_t(n), 0}) : dot_product_000({0.5, std::uint64_t(n), 0});
            for (std::size_t e = 0; e < 8; e++) mean[e] += out[e] / masks;
        }
        // out is a sum of n terms v / n, each kept and doubled or dropped: its variance is the sum of (v / n)^2.
        for (std::size_t e = 0; e < 8; e++) {
            const int kept = lens_000[e / 4];
            double variance = 0;
            for (int j = 0; j < kept; j++) variance += std::pow(double(4 * j + int(e % 4)) / kept, 2);
            INFO("layer " << layer << " element " << e << ": " << mean[e]);
            CHECK(std::abs(mean[e] - expected_000[e]) < 5 * std::sqrt(variance / masks));
        }
    }
}

TEST_CASE("seed 000, exercise: the two layers differ where the keys do, and each is a mean of the kept values", "[seed]") {
    const auto query = normal_floats(4, 5), key = normal_floats(40, 6), value = values_000();
    std::vector<float> dot(8), additive(8);
    attune::Context context;
    REQUIRE(attune::scaled_dot_product_attention(context, ConstView(query.data(), {2, 1, 2}), ConstView(key.data(), {2, 10, 2}),
                                                 ConstView(value.data(), {2, 10, 4}), View(dot.data(), {2, 1, 4}),
                                                 {.valid_lens = ConstView(lens_000, {2})})
                .ok());
    attune::AdditiveOptions options;  // without weights: the sum of tanh(q + k)
    options.attention.valid_lens = ConstView(lens_000, {2});
    REQUIRE(attune::additive_attention(context, ConstView(query.data(), {2, 1, 2}), ConstView(key.data(), {2, 10, 2}),
                                       ConstView(value.data(), {2, 10, 4}), View(additive.data(), {2, 1, 4}), options)
                .ok());
    CHECK(std::abs(dot[0] - additive[0]) > 1e-3);
    for (const auto &out : {dot, additive})
        for (std::size_t b : {0u, 1u}) {
            CHECK(out[4 * b] > 0);
            CHECK(out[4 * b] < float(4 * (lens_000[b] - 1)));
            for (std::size_t d = 1; d < 4; d++) CHECK(std::abs(out[4 * b + d] - out[4 * b] - float(d)) < 1e-5);
        }
}

TEST_CASE("seed 001: masked keys get no weight (its masked scores are 0 and keep some)", "[seed]") {
    const std::vector<float> x(16, -5.f);
    const auto weights = softmax_of(x, ConstView(per_batch, {2}), MaskFill::zero);
    for (std::size_t row = 0; row < 4; row++)
        for (std::size_t j = 0; j < 4; j++) {
            const std::size_t kept = row < 2 ? 2 : 3;
            CHECK((j < kept ? std::abs(weights[row * 4 + j] - 1.0 / double(kept)) < 1e-6 : weights[row * 4 + j] == 0));
        }
    // With 0 in place of minus infinity, masked keys would have nearly all weight: e^0 against e^-5.
    const double wrong = 2 / (2 + 2 * std::exp(-5.0));
    CHECK(wrong > 0.99);
}

TEST_CASE("seed 001: W_q projects the query and W_k the key (it has them swapped)", "[seed]") {
    const float query[] = {1, -1}, key[] = {0.5f, 0, 0, 2}, value[] = {0, 1}, w_query[] = {2, 0}, w_key[] = {0, 1};
    float out = 0, swapped = 0;
    attune::Context context;
    const auto run = [&](const float *for_query, const float *for_key, float &to) {
        return attune::additive_attention(context, ConstView(query, {1, 2}), ConstView(key, {2, 2}), ConstView(value, {2, 1}),
                                          View(&to, {1, 1}),
                                          {.w_query = ConstView(for_query, {1, 2}), .w_key = ConstView(for_key, {1, 2})});
    };
    REQUIRE(run(w_query, w_key, out).ok());
    REQUIRE(run(w_key, w_query, swapped).ok());
    // W_q q = 2; W_k k = 0 and 2.
    CHECK(std::abs(out - 1 / (1 + std::exp(std::tanh(2.0) - std::tanh(4.0)))) < 1e-5);
    CHECK(std::abs(swapped - 1 / (1 + std::exp(std::tanh(0.0) - std::tanh(-1.0)))) < 1e-5);
    CHECK(std::abs(out - swapped) > 0.1);
}

TEST_CASE("seed 001: the softmax is over the keys, in arrays of any shape", "[seed]") {
    // The document names no axis, and fixes the sizes 2 and 8.
    std::vector<float> x = normal_floats(3 * 5 * 7, 9), out(x.size());
    attune::Context context;
    REQUIRE(attune::masked_softmax(context, ConstView(x.data(), {3, 5, 7}), View(out.data(), {3, 5, 7})).ok());
    for (std::size_t row = 0; row < 15; row++) {
        double sum = 0;
        for (std::size_t j = 0; j < 7; j++) sum += out[row * 7 + j];
        CHECK(std::abs(sum - 1) < 1e-6);
    }
}

TEST_CASE("seed 001: without training there is no dropout, and the outputs are those of 000 (its example drops)", "[seed]") {
    CHECK(close_to(dot_product_000({}), expected_000));
    CHECK(close_to(additive_000({}), expected_000));
    CHECK_FALSE(close_to(dot_product_000({0.5, 1, 0}), expected_000));
}

TEST_CASE("Keras' additive example, by value", "[seed][additive]") {
    const float query[] = {1, 0, 0, 1}, key[] = {0, 1, 1, 0}, value[] = {1, 2, 3, 4}, w_score[] = {1, 1};
    std::vector<float> out(4);
    attune::Context context;
    for (bool given : {false, true}) {
        attune::AdditiveOptions options;
        if (given) options.w_score = ConstView(w_score, {2});
        REQUIRE(attune::additive_attention(context, ConstView(query, {1, 2, 2}), ConstView(key, {1, 2, 2}),
                                           ConstView(value, {1, 2, 2}), View(out.data(), {1, 2, 2}), options)
                    .ok());
        CHECK(close_to(out, {1.727, 2.727, 2.272, 3.272}, 1e-3 / 3.272));
    }
}
