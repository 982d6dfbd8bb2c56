// SPDX-License-Identifier: MIT
// docs/conventions.md rows 2, 5, 6 and 35 through the dispatcher. The weights are read from an identity of values and compared
// with masks drawn by hand, so that these tests are independent of the reference.
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::View;

namespace {
// Weights as a string for each query, '1' where the key has weight and '.' where it has none; all scores are equal.
std::vector<std::string> picture(std::int64_t queries, std::int64_t keys, const attune::SdpaOptions &options,
                                 std::int64_t batch = 1) {
    attune::Context context;
    const std::vector<float> query(std::size_t(batch * queries), 1.f), key(std::size_t(batch * keys), 1.f);
    std::vector<float> value, out(std::size_t(batch * queries * keys));
    for (std::int64_t n = 0; n < batch * keys * keys; n++) value.push_back(n % (keys * keys) % (keys + 1) == 0 ? 1.f : 0.f);
    const auto status = attune::scaled_dot_product_attention(
        context, ConstView(query.data(), {batch, queries, 1}), ConstView(key.data(), {batch, keys, 1}),
        ConstView(value.data(), {batch, keys, keys}), View(out.data(), {batch, queries, keys}), options);
    INFO(status.message());
    REQUIRE(status.ok());
    std::vector<std::string> rows;
    for (std::int64_t i = 0; i < batch * queries; i++) {
        std::string row;
        int kept = 0;
        for (std::int64_t j = 0; j < keys; j++) kept += out[std::size_t(i * keys + j)] != 0;
        for (std::int64_t j = 0; j < keys; j++) {
            const float w = out[std::size_t(i * keys + j)];
            row += w == 0 ? '.' : std::abs(w * float(kept) - 1) < 1e-5f ? '1' : '?';
        }
        rows.push_back(row);
    }
    return rows;
}
using Rows = std::vector<std::string>;
}  // namespace

TEST_CASE("sdpa: causal top-left, fewer and more queries than keys", "[sdpa][semantics]") {
    CHECK(picture(3, 5, {.causal = Causal::top_left}) == Rows{"1....", "11...", "111.."});
    CHECK(picture(5, 3, {.causal = Causal::top_left}) == Rows{"1..", "11.", "111", "111", "111"});
}

TEST_CASE("sdpa: causal bottom-right, fewer and more queries than keys", "[sdpa][semantics]") {
    CHECK(picture(3, 5, {.causal = Causal::bottom_right}) == Rows{"111..", "1111.", "11111"});
    CHECK(picture(5, 3, {.causal = Causal::bottom_right}) == Rows{"...", "...", "1..", "11.", "111"});
    CHECK(picture(1, 4, {.causal = Causal::bottom_right}) == Rows{"1111"});
}

TEST_CASE("sdpa: padding by valid lengths does not move bottom-right", "[sdpa][semantics]") {
    const std::int32_t lens[] = {3};
    CHECK(picture(3, 5, {.causal = Causal::bottom_right, .valid_lens = {lens, {1}}}) == Rows{"111..", "111..", "111.."});
}

TEST_CASE("sdpa: an offset is the position of query 0, never clamped", "[sdpa][semantics]") {
    CHECK(picture(3, 4, {.causal = Causal::offset, .offset = 1}) == Rows{"11..", "111.", "1111"});
    CHECK(picture(3, 4, {.causal = Causal::offset, .offset = -1}) == Rows{"....", "1...", "11.."});
    CHECK(picture(3, 4, {.causal = Causal::offset, .offset = 100}) == Rows{"1111", "1111", "1111"});
    CHECK(picture(3, 4, {.causal = Causal::offset, .offset = -100}) == Rows{"....", "....", "...."});
    const std::int32_t offsets[] = {2, -1};
    CHECK(picture(2, 4, {.causal = Causal::offset, .offsets = {offsets, {2}}}, 2) == Rows{"111.", "1111", "....", "1..."});
}

TEST_CASE("sdpa: a given offset counts, whatever causal says", "[sdpa][semantics]") {
    const std::int32_t offsets[] = {1};
    CHECK(picture(2, 5, {.causal = Causal::bottom_right, .offset = 0}) == Rows{"1....", "11..."});
    CHECK(picture(2, 5, {.causal = Causal::top_left, .offset = 2}) == Rows{"111..", "1111."});
    CHECK(picture(2, 5, {.causal = Causal::top_left, .offsets = {offsets, {1}}}) == Rows{"11...", "111.."});
    CHECK(picture(2, 3, {.offset = -5}) == Rows{"111", "111"});  // no causal mask and no window to move
}

TEST_CASE("sdpa: windows are inclusive on both sides, -1 is unbounded", "[sdpa][semantics]") {
    CHECK(picture(4, 4, {.window = {0, 0}}) == Rows{"1...", ".1..", "..1.", "...1"});
    CHECK(picture(4, 4, {.window = {1, 0}}) == Rows{"1...", "11..", ".11.", "..11"});
    CHECK(picture(4, 4, {.window = {0, 2}}) == Rows{"111.", ".111", "..11", "...1"});
    CHECK(picture(4, 4, {.window = {-1, 1}}) == Rows{"11..", "111.", "1111", "1111"});
    CHECK(picture(4, 4, {.window = {1, -1}}) == Rows{"1111", "1111", ".111", "..11"});
    CHECK(picture(2, 4, {.window = {-1, -1}}) == Rows{"1111", "1111"});
}

TEST_CASE("sdpa: a window uses the offset of causal, and 0 without it", "[sdpa][semantics]") {
    CHECK(picture(2, 5, {.window = {1, 0}}) == Rows{"1....", "11..."});
    CHECK(picture(2, 5, {.causal = Causal::bottom_right, .window = {1, -1}}) == Rows{"..11.", "...11"});
    CHECK(picture(2, 5, {.causal = Causal::bottom_right, .window = {1, 2}}) == Rows{"..11.", "...11"});
    CHECK(picture(2, 5, {.offset = 2, .window = {0, 1}}) == Rows{"..11.", "...11"});
    CHECK(picture(2, 5, {.causal = Causal::top_left, .window = {1, -1}}) == Rows{"1....", "11..."});
    CHECK(picture(2, 3, {.offset = 5, .window = {1, 1}}) == Rows{"...", "..."});
}

TEST_CASE("sdpa: valid lengths per batch entry and per query", "[sdpa][semantics]") {
    const std::int32_t lens[] = {2, 0}, per_query[] = {1, 3, 4, 0};
    CHECK(picture(2, 4, {.valid_lens = {lens, {2}}}, 2) == Rows{"11..", "11..", "....", "...."});
    CHECK(picture(2, 4, {.valid_lens = {per_query, {2, 2}}}, 2) == Rows{"1...", "111.", "1111", "...."});
}

TEST_CASE("sdpa: masks compose by and", "[sdpa][semantics]") {
    const std::int32_t lens[] = {3};
    CHECK(picture(4, 4, {.causal = Causal::top_left, .window = {1, -1}, .valid_lens = {lens, {1}}}) ==
          Rows{"1...", "11..", ".11.", "..1."});
    const std::int32_t per_query[] = {4, 0, 1, 3};
    CHECK(picture(4, 4, {.window = {2, 1}, .valid_lens = {per_query, {1, 4}}}) == Rows{"11..", "....", "1...", ".11."});
}

TEST_CASE("sdpa: rows of every length of causal at sizes over tiles and KV blocks", "[sdpa][semantics]") {
    const std::int64_t queries = 150, keys = 300;
    const Rows rows = picture(queries, keys, {.causal = Causal::bottom_right});
    for (std::int64_t i = 0; i < queries; i++) {
        const std::size_t kept = std::size_t(i + 1 + keys - queries);
        CHECK(rows[std::size_t(i)] == std::string(kept, '1') + std::string(std::size_t(keys) - kept, '.'));
    }
}

TEST_CASE("sdpa: the dispatched call agrees with the reference over sizes and masks", "[sdpa][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (std::int64_t queries : {1, 2, 7, 33, 150})
        for (std::int64_t keys : {1, 10, 63, 64, 65, 300})
            for (const auto &[head_dim, value_dim] : {std::pair(64, 64), {32, 32}, {128, 128}, {48, 40}}) {
                SdpaCase c{.query_heads = 4,
                           .key_heads = seed % 2 ? 4 : 2,
                           .queries = queries,
                           .keys = keys,
                           .head_dim = head_dim,
                           .value_dim = value_dim,
                           .causal = seed % 3 ? Causal::none : Causal::bottom_right,
                           .seed = seed};
                if (seed % 5 == 0) c.valid_lens = {0, std::int32_t(keys)};
                if (seed % 7 == 0) c.window = {5, 9};
                seed++;
                check_case<float>(context, c);
                if (seed % 4 == 0) check_case<double>(context, c);
            }
}
