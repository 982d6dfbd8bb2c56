// The worked examples of the documents that the project starts from, as far as scaled dot-product attention covers them.
#include "tests/support/sdpa_case.h"

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
constexpr auto close_to = [](const std::vector<float> &got, const std::vector<double> &expected) {
    if (got.size() != expected.size()) return false;
    for (std::size_t n = 0; n < got.size(); n++)
        if (std::abs(got[n] - expected[n]) > 1e-6 * std::max(1.0, std::abs(expected[n]))) return false;
    return true;
};

// One head: query (rows, d) on key (keys, d) and value (keys, v).
std::vector<float> attend(const std::vector<float> &query, const std::vector<float> &key, const std::vector<float> &value,
                          std::int64_t rows, std::int64_t keys) {
    const std::int64_t d = std::int64_t(query.size()) / rows, v = std::int64_t(value.size()) / keys;
    std::vector<float> out(std::size_t(rows * v), -1.f);
    attune::Context context;
    const auto status = attune::scaled_dot_product_attention(
        context, ConstView(query.data(), {1, rows, d}), ConstView(key.data(), {1, keys, d}),
        ConstView(value.data(), {1, keys, v}), View(out.data(), {1, rows, v}));
    INFO(status.message());
    REQUIRE(status.ok());
    return out;
}
std::vector<float> identity(std::int64_t n) {
    std::vector<float> one(std::size_t(n * n), 0.f);
    for (std::int64_t i = 0; i < n; i++) one[std::size_t(i * n + i)] = 1;
    return one;
}

// 002: keys and values of its print_out examples.
const std::vector<float> key_002 = {10, 0, 0, 0, 10, 0, 0, 0, 10, 0, 0, 10};
const std::vector<float> value_002 = {1, 0, 10, 0, 100, 5, 1000, 6};
}  // namespace

TEST_CASE("seed 000: DotProductAttention, valid_lens 2 and 6 of ten equal keys", "[seed]") {
    std::mt19937 random(0);
    std::normal_distribution<float> normal;
    std::vector<float> query(2 * 1 * 2), value;
    for (float &x : query) x = normal(random);
    const std::vector<float> key(2 * 10 * 2, 1.f);
    for (int b = 0; b < 2; b++)
        for (int n = 0; n < 40; n++) value.push_back(float(n));
    const std::int32_t lens[] = {2, 6};
    std::vector<float> out(8);
    attune::Context context;
    REQUIRE(attune::scaled_dot_product_attention(context, ConstView(query.data(), {2, 1, 2}), ConstView(key.data(), {2, 10, 2}),
                                                 ConstView(value.data(), {2, 10, 4}), View(out.data(), {2, 1, 4}),
                                                 {.valid_lens = ConstView(lens, {2})})
                .ok());
    CHECK(close_to(out, {2, 3, 4, 5, 10, 11, 12, 13}));
}

TEST_CASE("seed 000: masked weights are 0 and rows sum to 1, lengths per batch and per query", "[seed]") {
    // masked_softmax of a (2, 2, 4) array: scores are the query's channels, weights are read off an identity of values.
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(0, 1);
    std::vector<float> score(2 * 2 * 4), key, out(2 * 2 * 4);
    for (float &x : score) x = uniform(random);
    for (int b = 0; b < 2; b++)
        for (float x : identity(4)) key.push_back(x);
    const std::int32_t per_batch[] = {2, 3}, per_query[] = {1, 3, 2, 4};
    const int expected[2][4] = {{2, 2, 3, 3}, {1, 3, 2, 4}};
    attune::Context context;
    for (int kind : {0, 1}) {
        const ConstView lens = kind == 0 ? ConstView(per_batch, {2}) : ConstView(per_query, {2, 2});
        REQUIRE(attune::scaled_dot_product_attention(context, ConstView(score.data(), {2, 2, 4}),
                                                     ConstView(key.data(), {2, 4, 4}), ConstView(key.data(), {2, 4, 4}),
                                                     View(out.data(), {2, 2, 4}), {.scale = 1.0, .valid_lens = lens})
                    .ok());
        for (int row = 0; row < 4; row++) {
            const int kept = expected[kind][row];
            double sum = 0, all = 0;
            for (int j = 0; j < kept; j++) all += std::exp(double(score[std::size_t(row * 4 + j)]));
            for (int j = 0; j < 4; j++) {
                const float w = out[std::size_t(row * 4 + j)];
                if (j >= kept)
                    CHECK(w == 0);
                else
                    CHECK(std::abs(w - std::exp(double(score[std::size_t(row * 4 + j)])) / all) < 1e-6);
                sum += w;
            }
            CHECK(std::abs(sum - 1) < 1e-6);
        }
    }
}

TEST_CASE("seed 002: q [0,10,0] takes the second value", "[seed]") {
    CHECK(close_to(attend({0, 10, 0}, key_002, identity(4), 1, 4), {0, 1, 0, 0}));
    CHECK(close_to(attend({0, 10, 0}, key_002, value_002, 1, 4), {10, 0}));
}

TEST_CASE("seed 002: q [0,0,10] takes the mean of the third and fourth value", "[seed]") {
    CHECK(close_to(attend({0, 0, 10}, key_002, identity(4), 1, 4), {0, 0, 0.5, 0.5}));
    CHECK(close_to(attend({0, 0, 10}, key_002, value_002, 1, 4), {550, 5.5}));
}

TEST_CASE("seed 002: q [10,10,0] takes the mean of the first two values", "[seed]") {
    CHECK(close_to(attend({10, 10, 0}, key_002, identity(4), 1, 4), {0.5, 0.5, 0, 0}));
    CHECK(close_to(attend({10, 10, 0}, key_002, value_002, 1, 4), {5.5, 0}));
}

TEST_CASE("seed 002: the three queries together give the three rows", "[seed]") {
    const std::vector<float> query = {0, 0, 10, 0, 10, 0, 10, 10, 0};
    CHECK(close_to(attend(query, key_002, identity(4), 3, 4), {0, 0, 0.5, 0.5, 0, 1, 0, 0, 0.5, 0.5, 0, 0}));
    CHECK(close_to(attend(query, key_002, value_002, 3, 4), {550, 5.5, 10, 0, 5.5, 0}));
}

TEST_CASE("seed 002: multi-head shapes (1,8,60,64), and a query of 62", "[seed]") {
    attune::Context context;
    for (std::int64_t queries : {60, 62}) {
        // Heads are a view of (1, S, 512): split and concatenation are strides.
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
        c.causal = attune::Causal::top_left;  // its look-ahead mask
        check_case<float>(context, c);
        c.causal = attune::Causal::none, c.valid_lens = {47};  // its padding mask
        check_case<float>(context, c);
    }
}

TEST_CASE("seed 004: one decoder state against encoder states, then batch 3, J 10, I 9, K 18", "[seed]") {
    attune::Context context;
    check_case<float>(context,
                      {.batch = 1, .query_heads = 1, .key_heads = 1, .queries = 1, .keys = 9, .head_dim = 18, .value_dim = 18});
    SdpaCase c{.batch = 3, .query_heads = 1, .key_heads = 1, .queries = 10, .keys = 9, .head_dim = 18, .value_dim = 18};
    check_case<float>(context, c);
    check_case<double>(context, c);
}

TEST_CASE("seed 004: weights (10, 9) sum to 1 for every query, lengths differ", "[seed]") {
    attune::Context context;
    for (const std::vector<std::int32_t> &lens : {std::vector<std::int32_t>{}, {9, 4, 1}}) {
        SdpaCase c{.batch = 3,
                   .query_heads = 1,
                   .key_heads = 1,
                   .queries = 10,
                   .keys = 9,
                   .head_dim = 18,
                   .value_dim = 9,
                   .valid_lens = lens};
        SdpaArrays<float> a(c);
        for (std::int64_t b = 0; b < 3; b++)
            for (std::int64_t j = 0; j < 9; j++)
                for (std::int64_t d = 0; d < 9; d++) a.value(b, 0, j, d) = j == d ? 1.f : 0.f;
        REQUIRE(a.run(context).ok());
        CHECK(defect(a) == "");
        for (std::int64_t b = 0; b < 3; b++)
            for (std::int64_t i = 0; i < 10; i++) {
                double sum = 0;
                for (std::int64_t j = 0; j < 9; j++) {
                    const float w = a.out(b, 0, i, j);
                    const bool kept = lens.empty() || j < lens[std::size_t(b)];
                    CHECK((kept ? w > 0 : w == 0));
                    sum += w;
                }
                CHECK(std::abs(sum - 1) < 1e-6);
            }
    }
}
