// SPDX-License-Identifier: MIT
// Document 002: scaled dot-product and multi-head attention, its masks, and its mistakes.
#include "tests/seeds/documents.h"
#include "tests/support/multi_head_case.h"
#include "tests/support/refusals.h"

using namespace attune_test;
using attune::ConstView, attune::View, attune::WeightsMode;

namespace {
// Keys and values of the document's print_out examples.
const std::vector<float> key_002 = {10, 0, 0, 0, 10, 0, 0, 0, 10, 0, 0, 10};
const std::vector<float> value_002 = {1, 0, 10, 0, 100, 5, 1000, 6};
}  // namespace

TEST_CASE("seed 002: q [0,10,0] takes the second value", "[seed]") {
    const auto got = attend({0, 10, 0}, key_002, value_002, 1, 4);
    CHECK(close_to(got.weights, {0, 1, 0, 0}));
    CHECK(close_to(got.out, {10, 0}));
}

TEST_CASE("seed 002: q [0,0,10] takes the mean of the third and fourth value", "[seed]") {
    const auto got = attend({0, 0, 10}, key_002, value_002, 1, 4);
    CHECK(close_to(got.weights, {0, 0, 0.5, 0.5}));
    CHECK(close_to(got.out, {550, 5.5}));
}

TEST_CASE("seed 002: q [10,10,0] takes the mean of the first two values", "[seed]") {
    const auto got = attend({10, 10, 0}, key_002, value_002, 1, 4);
    CHECK(close_to(got.weights, {0.5, 0.5, 0, 0}));
    CHECK(close_to(got.out, {5.5, 0}));
}

TEST_CASE("seed 002: the three queries together give the three rows", "[seed]") {
    const auto got = attend({0, 0, 10, 0, 10, 0, 10, 10, 0}, key_002, value_002, 3, 4);
    CHECK(close_to(got.weights, {0, 0, 0.5, 0.5, 0, 1, 0, 0, 0.5, 0.5, 0, 0}));
    CHECK(close_to(got.out, {550, 5.5, 10, 0, 5.5, 0}));
}

TEST_CASE("seed 002: its mask as a boolean (== 0) and as a bias (times -1e9) gives the same rows", "[seed]") {
    // 1 masks: the third key for the first query, the second for the second, the first for the third.
    const float mask[] = {0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0};
    bool takes_part[12];
    float bias[12], mistaken[12];
    for (int n = 0; n < 12; n++)
        takes_part[n] = mask[n] == 0, bias[n] = mask[n] * -1e9f, mistaken[n] = mask[n] * 1e-9f;  // the document writes 1e-9
    const std::vector<float> query = {0, 0, 10, 0, 10, 0, 10, 10, 0};
    const std::vector<double> weights = {0, 0, 0, 1, 1 / 3.0, 0, 1 / 3.0, 1 / 3.0, 0, 1, 0, 0};
    const std::vector<double> out = {1000, 6, 1101 / 3.0, 11 / 3.0, 10, 0};
    for (const attune::SdpaOptions &options :
         {attune::SdpaOptions{.mask = ConstView(takes_part, {3, 4})}, attune::SdpaOptions{.bias = ConstView(bias, {3, 4})}}) {
        const auto got = attend(query, key_002, value_002, 3, 4, options);
        CHECK(close_to(got.weights, weights));
        CHECK(close_to(got.out, out));
        for (std::size_t n : {2u, 5u, 8u}) CHECK(got.weights[n] == 0);
    }
    // As written in the document, the mask masks nothing.
    const auto wrong = attend(query, key_002, value_002, 3, 4, {.bias = ConstView(mistaken, {3, 4})});
    CHECK(close_to(wrong.out, {550, 5.5, 10, 0, 5.5, 0}));
}

TEST_CASE("seed 002: padding and look-ahead masks are both this input, of any leading dimensions", "[seed]") {
    // The document's create_padding_mask is (batch, 1, 1, seq) and true where seq is 0; create_look_ahead_mask is (seq, seq).
    // Here seq = [[7,6,0,0,1],[1,2,3,0,0],[0,0,0,4,5]], and true takes part.
    const bool padding[] = {true, true, false, false, true, true, true, true, false, false, false, false, false, true, true};
    bool look_ahead[25];
    for (int n = 0; n < 25; n++) look_ahead[n] = n % 5 <= n / 5;
    SdpaCase c{.batch = 3, .query_heads = 2, .key_heads = 2, .queries = 5, .keys = 5, .weights = WeightsMode::probabilities};
    attune::Context context;
    for (bool ahead : {false, true}) {
        SdpaArrays<float> a(c);
        auto options = a.options({});
        options.mask = ahead ? ConstView(look_ahead, {5, 5}) : ConstView(padding, {3, 1, 1, 5});
        const auto status =
            attune::scaled_dot_product_attention(context, a.query.view(), a.key.view(), a.value.view(), a.out.view(), options);
        INFO(status.message());
        REQUIRE(status.ok());
        for (std::int64_t b = 0; b < 3; b++)
            for (std::int64_t i = 0; i < 5; i++) {
                double sum = 0;
                for (std::int64_t j = 0; j < 5; j++) {
                    const bool kept = ahead ? j <= i : padding[b * 5 + j];
                    CHECK((a.weights(b, 1, i, j) > 0) == kept);
                    sum += a.weights(b, 1, i, j);
                }
                CHECK(std::abs(sum - 1) < 1e-6);
            }
    }
}

TEST_CASE("seed 002: multi-head attention of d_model 512 and 8 heads, y (1,60,512), and a query of 62", "[seed]") {
    attune::Context context;
    MultiHeadCase c{
        .attention =
            {.batch = 1, .query_heads = 8, .key_heads = 8, .queries = 60, .keys = 60, .weights = WeightsMode::probabilities},
        .query_width = 512,
        .key_width = 512,
        .value_width = 512,
        .out_width = 512,
        .query_bias = true,
        .key_bias = true,
        .value_bias = true,
        .out_bias = true,
        .self = true};
    MultiHeadArrays<float> same(c);
    CHECK(same.run(context).ok());
    CHECK(same.out.values().size() == 1 * 60 * 512);
    CHECK(same.base.weights.values().size() == 1 * 8 * 60 * 60);
    CHECK(defect(same) == "");
    c.self = false, c.attention.queries = 62;
    MultiHeadArrays<float> longer(c);
    CHECK(longer.run(context).ok());
    CHECK(longer.out.values().size() == 1 * 62 * 512);
    CHECK(longer.base.weights.values().size() == 1 * 8 * 62 * 60);
    CHECK(defect(longer) == "");
}

TEST_CASE("seed 002: d_model has to be divisible by the number of heads", "[seed]") {
    attune::Context context;
    MultiHeadCase c{.attention = {.batch = 1, .query_heads = 8, .key_heads = 8, .queries = 6, .keys = 6},
                    .query_width = 512,
                    .out_width = 512,
                    .self = true};
    MultiHeadArrays<float> a(c);
    auto options = a.options();
    options.heads = 7;
    const auto status = attune::multi_head_attention(context, a.query.view(), a.query.view(), a.query.view(), a.weights(),
                                                     a.out.view(), options);
    CHECK(status.code() == invalid);
    CHECK(message_defect(status.message(), "heads", {"512", "7"}) == "");
    CHECK(a.out.untouched());
}

TEST_CASE("seed 002: heads are strides of (1, S, 512): split and concatenation copy nothing", "[seed]") {
    attune::Context context;
    for (std::int64_t queries : {60, 62}) {
        SdpaCase c{.batch = 1,
                   .query_heads = 8,
                   .key_heads = 8,
                   .queries = queries,
                   .keys = 60,
                   .query_layout = Layout::bshd,
                   .key_layout = Layout::bshd,
                   .value_layout = Layout::bshd,
                   .out_layout = Layout::bshd};
        check_case<float>(context, c);
        c.causal = attune::Causal::top_left;  // the document's look-ahead mask
        check_case<float>(context, c);
        c.causal = attune::Causal::none, c.valid_lens = {47};  // the document's padding mask
        check_case<float>(context, c);
    }
}
