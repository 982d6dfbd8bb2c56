// SPDX-License-Identifier: MIT
// Documents 003 (attention in sequence-to-sequence models) and 004 (attention scores, step by step).
#include "tests/seeds/documents.h"
#include "tests/support/additive_case.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
// Document 003: a decoder of states of 6 channels over an encoder's nine states of 10, hidden size 8, three maps with biases.
struct Bahdanau {
    std::int64_t words = 9, encoder = 10, decoder = 6, hidden = 8;
    std::vector<float> states = normal_floats(90, 1), w_decoder = normal_floats(48, 2), w_encoder = normal_floats(80, 3),
                       v = normal_floats(8, 4), b_decoder = normal_floats(8, 5), b_encoder = normal_floats(8, 6);
    double b_score = 0.3;

    // alpha and the context vector of one decoder state, in double, with or without the tanh.
    std::pair<std::vector<double>, std::vector<double>> by_hand(const float *state, bool with_tanh) const {
        std::vector<double> alpha, context(std::size_t(encoder), 0);
        double sum = 0;
        for (std::int64_t j = 0; j < words; j++) {
            double e = b_score;
            for (std::int64_t n = 0; n < hidden; n++) {
                double x = double(b_decoder[std::size_t(n)]) + double(b_encoder[std::size_t(n)]);
                for (std::int64_t d = 0; d < decoder; d++)
                    x += double(w_decoder[std::size_t(n * decoder + d)]) * double(state[d]);
                for (std::int64_t d = 0; d < encoder; d++)
                    x += double(w_encoder[std::size_t(n * encoder + d)]) * double(states[std::size_t(j * encoder + d)]);
                e += double(v[std::size_t(n)]) * (with_tanh ? std::tanh(x) : x);
            }
            alpha.push_back(std::exp(e)), sum += alpha.back();
        }
        for (std::int64_t j = 0; j < words; j++) {
            alpha[std::size_t(j)] /= sum;
            for (std::int64_t d = 0; d < encoder; d++)
                context[std::size_t(d)] += alpha[std::size_t(j)] * double(states[std::size_t(j * encoder + d)]);
        }
        return {alpha, context};
    }
    // Options for keys projected by the library or by the caller.
    attune::AdditiveOptions options(std::vector<float> &alpha) const {
        attune::AdditiveOptions o{.w_query = ConstView(w_decoder.data(), {hidden, decoder})};
        o.b_query = ConstView(b_decoder.data(), {hidden}), o.w_score = ConstView(v.data(), {hidden}), o.b_score = b_score;
        o.attention.weights = View(alpha.data(), {1, words});
        return o;
    }
};
}  // namespace

TEST_CASE("seed 003: Bahdanau's decoder, one query at a time, the keys projected once", "[seed][additive]") {
    const Bahdanau b;
    attune::Context context;
    std::vector<float> projected(std::size_t(b.words * b.hidden)), alpha(std::size_t(b.words)), out(std::size_t(b.encoder));
    REQUIRE(attune::linear(context, ConstView(b.states.data(), {b.words, b.encoder}),
                           ConstView(b.w_encoder.data(), {b.hidden, b.encoder}), ConstView(b.b_encoder.data(), {b.hidden}),
                           View(projected.data(), {b.words, b.hidden}))
                .ok());
    const auto steps = normal_floats(std::size_t(5 * b.decoder), 7);
    for (std::int64_t step = 0; step < 5; step++) {
        const float *state = steps.data() + step * b.decoder;
        const auto [expected_alpha, expected_context] = b.by_hand(state, true);
        for (bool caller_projects : {true, false}) {
            auto options = b.options(alpha);
            if (!caller_projects)
                options.w_key = ConstView(b.w_encoder.data(), {b.hidden, b.encoder}),
                options.b_key = ConstView(b.b_encoder.data(), {b.hidden});
            const ConstView states(b.states.data(), {b.words, b.encoder});  // the keys are the values
            const auto status =
                attune::additive_attention(context, ConstView(state, {1, b.decoder}),
                                           caller_projects ? ConstView(projected.data(), {b.words, b.hidden}) : states, states,
                                           View(out.data(), {1, b.encoder}), options);
            INFO(status.message());
            REQUIRE(status.ok());
            CHECK(close_to(alpha, expected_alpha, 1e-5));
            CHECK(close_to(out, expected_context, 1e-5));
        }
    }
}

TEST_CASE("seed 003: tanh is there (its code leaves it out)", "[seed][additive]") {
    const Bahdanau b;
    attune::Context context;
    std::vector<float> alpha(std::size_t(b.words)), out(std::size_t(b.encoder));
    const auto state = normal_floats(std::size_t(b.decoder), 8);
    auto options = b.options(alpha);
    options.w_key = ConstView(b.w_encoder.data(), {b.hidden, b.encoder}),
    options.b_key = ConstView(b.b_encoder.data(), {b.hidden});
    const ConstView states(b.states.data(), {b.words, b.encoder});
    REQUIRE(attune::additive_attention(context, ConstView(state.data(), {1, b.decoder}), states, states,
                                       View(out.data(), {1, b.encoder}), options)
                .ok());
    CHECK(close_to(alpha, b.by_hand(state.data(), true).first, 1e-5));
    CHECK_FALSE(close_to(alpha, b.by_hand(state.data(), false).first, 1e-2));
}

TEST_CASE("seed 003: all steps at once give the alignment of source and target words", "[seed][additive]") {
    const Bahdanau b;
    attune::Context context;
    const std::int64_t steps = 7;
    const auto states = normal_floats(std::size_t(steps * b.decoder), 9);
    std::vector<float> alpha(std::size_t(steps * b.words)), out(std::size_t(steps * b.encoder));
    auto options = b.options(alpha);
    options.w_key = ConstView(b.w_encoder.data(), {b.hidden, b.encoder}),
    options.b_key = ConstView(b.b_encoder.data(), {b.hidden});
    options.attention.weights = View(alpha.data(), {steps, b.words});
    const ConstView encoded(b.states.data(), {b.words, b.encoder});
    REQUIRE(attune::additive_attention(context, ConstView(states.data(), {steps, b.decoder}), encoded, encoded,
                                       View(out.data(), {steps, b.encoder}), options)
                .ok());
    std::vector<double> expected;
    for (std::int64_t i = 0; i < steps; i++)
        for (double a : b.by_hand(states.data() + i * b.decoder, true).first) expected.push_back(a);
    CHECK(close_to(alpha, expected, 1e-5));
}

TEST_CASE("seed 004: one decoder state against encoder states, then batch 3, J 10, I 9, K 18", "[seed]") {
    attune::Context context;
    check_case<float>(context,
                      {.batch = 1, .query_heads = 1, .key_heads = 1, .queries = 1, .keys = 9, .head_dim = 18, .value_dim = 18});
    SdpaCase c{.batch = 3, .query_heads = 1, .key_heads = 1, .queries = 10, .keys = 9, .head_dim = 18, .value_dim = 18};
    check_case<float>(context, c);
    check_case<double>(context, c);
}

TEST_CASE("seed 004: weights (10, 9) sum to 1 for every query, and the context is (10, 18), lengths differ", "[seed]") {
    attune::Context context;
    for (const std::vector<std::int32_t> &lens : {std::vector<std::int32_t>{}, {9, 4, 1}}) {
        SdpaCase c{.batch = 3,
                   .query_heads = 1,
                   .key_heads = 1,
                   .queries = 10,
                   .keys = 9,
                   .head_dim = 18,
                   .value_dim = 18,
                   .valid_lens = lens,
                   .weights = attune::WeightsMode::probabilities};
        SdpaArrays<float> a(c);
        REQUIRE(a.run(context).ok());
        CHECK(defect(a) == "");
        CHECK(a.out.values().size() == 3 * 10 * 18);
        for (std::int64_t b = 0; b < 3; b++)
            for (std::int64_t i = 0; i < 10; i++) {
                double sum = 0;
                for (std::int64_t j = 0; j < 9; j++) {
                    const float w = a.weights(b, 0, i, j);
                    const bool kept = lens.empty() || j < lens[std::size_t(b)];
                    CHECK((kept ? w > 0 : w == 0));
                    sum += w;
                }
                CHECK(std::abs(sum - 1) < 1e-6);
            }
    }
}

TEST_CASE("seed 004: dropout on the weights is optional", "[seed]") {
    attune::Context context;
    SdpaCase c{.batch = 3, .query_heads = 1, .key_heads = 1, .queries = 10, .keys = 9, .head_dim = 18, .value_dim = 18};
    c.dropout = {0.2, 4, 0}, c.weights = attune::WeightsMode::probabilities;
    check_case<float>(context, c);
}
