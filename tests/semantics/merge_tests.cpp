// SPDX-License-Identifier: MIT
// merge_attention (docs/conventions.md rows 21 and 22): the merge of attentions, and edge cases.
#include "tests/support/merge_parts_case.h"
#include "tests/support/sdpa_arrays.h"
#include <cmath>

using namespace attune_test;
using attune::ConstView, attune::View;

namespace {
const float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();

// One row of one channel.
std::pair<float, float> merged(float out_a, float lse_a, float out_b, float lse_b) {
    attune::Context context({.threads = 1});
    float out = 7, lse = 7;
    const auto status = attune::merge_attention(context, {&out_a, {1, 1}}, {&lse_a, {1}}, {&out_b, {1, 1}}, {&lse_b, {1}},
                                                {&out, {1, 1}}, {&lse, {1}});
    INFO(status.message());
    CHECK(status.ok());
    return {out, lse};
}
}  // namespace

TEST_CASE("merge: attention over two parts of the keys is attention over all", "[merge]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (std::int64_t split : {0, 1, 40, 99, 100})
        for (std::int64_t queries : {1, 37}) {
            SdpaCase c{.query_heads = 4, .key_heads = 2, .queries = queries, .keys = 100, .seed = seed++};
            c.valid_lens = {60, 0};  // the second entry has no keys, so both parts are empty
            INFO(describe(c) << " split " << split);
            SdpaArrays<float> whole(c), part_a(c), part_b(c), both(c);
            const auto keys = [&](View v, std::int64_t begin, std::int64_t end) {
                v.data = static_cast<float *>(v.data) + begin * v.stride[2];
                v.extent[2] = end - begin;
                return v;
            };
            for (auto [part, begin, end] : {std::tuple(&part_a, std::int64_t(0), split), {&part_b, split, std::int64_t(100)}}) {
                std::vector<std::int32_t> lens;
                for (std::int64_t n : c.valid_lens) lens.push_back(std::int32_t(std::clamp(n - begin, 0L, end - begin)));
                const auto status = attune::scaled_dot_product_attention(
                    context, whole.query.view(), keys(whole.key.view(), begin, end), keys(whole.value.view(), begin, end),
                    part->out.view(), {.valid_lens = ConstView(lens.data(), {2}), .lse = part->lse.view()});
                INFO(status.message());
                REQUIRE(status.ok());
            }
            const auto status = attune::merge_attention(context, part_a.out.view(), part_a.lse.view(), part_b.out.view(),
                                                        part_b.lse.view(), both.out.view(), both.lse.view());
            INFO(status.message());
            REQUIRE(status.ok());
            CHECK(defect(both) == "");
        }
}

TEST_CASE("merge: parts without keys, and numbers that are none", "[merge]") {
    // A part without keys has no weight, whatever its row holds.
    CHECK(merged(not_a_number, -inf, 3, 2) == std::pair(3.f, 2.f));
    CHECK(merged(3, 2, inf, -inf) == std::pair(3.f, 2.f));
    CHECK(merged(not_a_number, -inf, not_a_number, -inf) == std::pair(0.f, -inf));
    // A part of almost no weight still propagates its NaN, like a kept NaN.
    CHECK(std::isnan(merged(not_a_number, -200, 3, 2).first));
    CHECK(merged(not_a_number, -200, 3, 2).second == 2);
    for (float other : {2.f, -300.f, 300.f}) {
        CHECK(std::isnan(merged(1, not_a_number, 3, other).first));
        CHECK(std::isnan(merged(1, not_a_number, 3, other).second));
        CHECK(std::isnan(merged(1, other, 3, not_a_number).first));
        CHECK(std::isnan(merged(1, other, 3, not_a_number).second));
    }
    CHECK(std::isnan(merged(1, not_a_number, 3, -inf).second));
    CHECK(std::isnan(merged(1, -inf, 3, not_a_number).second));
    // Equal parts; parts far apart; logarithms whose exponentials overflow.
    CHECK(merged(1, 5, 3, 5).first == 2);
    CHECK(merged(1, 500, 3, -500) == std::pair(1.f, 500.f));
    CHECK(merged(1, 1e30f, 3, -1e30f) == std::pair(1.f, 1e30f));
    CHECK(merged(1, 3000, 3, 3000).second == Approx(3000 + std::log(2.)));
}

TEMPLATE_TEST_CASE("merge: a NaN of any bits stays one, whatever its row is stored in", "[merge]", float, BFloat16, Float16) {
    attune::Context context({.threads = 1});
    for (std::uint32_t bits : {0x7fffffffu, 0xffffffffu, 0x7fc00000u, 0x7f800001u})
        for (std::int64_t width : {1, 40}) {
            const float lse_a = std::bit_cast<float>(bits), lse_b = 1;
            const std::vector<TestType> rows(std::size_t(width), TestType(1.f));
            std::vector<TestType> out = rows;
            REQUIRE(attune::merge_attention(context, {rows.data(), {1, width}}, {&lse_a, {1}}, {rows.data(), {1, width}},
                                            {&lse_b, {1}}, {out.data(), {1, width}})
                        .ok());
            INFO(std::hex << bits);
            for (const TestType &x : out) CHECK(std::isnan(float(x)));
        }
}

TEST_CASE("merge: several parts without keys, and numbers that are none", "[merge]") {
    attune::Context context({.threads = 1});
    const auto merged = [&](std::vector<std::pair<float, float>> of_parts) {
        std::vector<attune::PartialAttention> parts;
        for (const auto &[out, lse] : of_parts) parts.push_back({{&out, {1, 1}}, {&lse, {1}}});
        float out = 7, lse = 7;
        CHECK(attune::merge_attention(context, parts.data(), parts.size(), {&out, {1, 1}}, {&lse, {1}}).ok());
        return std::pair(out, lse);
    };
    for (const std::size_t empty_parts : {1u, 2u, 5u, 8u}) {
        const std::vector<std::pair<float, float>> none(empty_parts, {not_a_number, -inf});
        const auto beside = [&](std::vector<std::pair<float, float>> some) {
            some.insert(some.begin() + 1, none.begin(), none.end());
            return merged(some);
        };
        CHECK(merged(none) == std::pair(0.f, -inf));
        CHECK(beside({{3, 2}}) == std::pair(3.f, 2.f));
        CHECK(beside({{inf, 2}}) == std::pair(inf, 2.f));
        CHECK(beside({{3, inf}}) == std::pair(3.f, inf));
        CHECK(beside({{3, not_a_number}}).first == 3);
        CHECK(std::isnan(beside({{3, not_a_number}}).second));
        CHECK(beside({{1, 5}, {3, 5}}).first == 2);
        CHECK(beside({{1, 500}, {3, -500}}) == std::pair(1.f, 500.f));
        CHECK(std::isnan(beside({{not_a_number, -200}, {3, 2}}).first));
        CHECK(std::isnan(beside({{1, 2}, {3, not_a_number}}).first));
        CHECK(std::isnan(beside({{1, not_a_number}, {3, 2}}).second));
    }
}

TEMPLATE_TEST_CASE("merge: parts of 16 bits are rounded once", "[merge]", BFloat16, Float16) {
    attune::Context context({.threads = 1});
    // Seven equal parts: the mean of 1 and of six numbers one rounding above it, which rounding in between would change.
    for (const std::size_t count : {3u, 5u, 7u, 9u}) {
        const float step = std::is_same_v<TestType, BFloat16> ? 0x1p-7f : 0x1p-10f;
        std::vector<TestType> outs(count, TestType(1 + step));
        outs[0] = TestType(1.f);
        const float lse = 0;
        std::vector<attune::PartialAttention> parts;
        for (const TestType &out : outs) parts.push_back({{&out, {1, 1}}, {&lse, {1}}});
        TestType out(7.f);
        REQUIRE(attune::merge_attention(context, parts.data(), count, {&out, {1, 1}}).ok());
        CHECK(float(out) == float(TestType(1 + step * float(count - 1) / float(count))));
    }
}

TEST_CASE("merge: attention over five parts of the keys is attention over all", "[merge]") {
    attune::Context context({.threads = 2});
    for (const std::int64_t queries : {1, 37}) {
        SdpaCase c{.query_heads = 4, .key_heads = 2, .queries = queries, .keys = 100};
        SdpaArrays<float> whole(c), both(c);
        std::vector<SdpaArrays<float>> of_part(5, whole);
        std::vector<attune::PartialAttention> parts;
        for (std::int64_t n = 0; n < 5; n++) {
            const auto keys = [&](View v) {
                v.data = static_cast<float *>(v.data) + 20 * n * v.stride[2];
                v.extent[2] = 20;
                return v;
            };
            SdpaArrays<float> &part = of_part[std::size_t(n)];
            REQUIRE(attune::scaled_dot_product_attention(context, whole.query.view(), keys(whole.key.view()),
                                                         keys(whole.value.view()), part.out.view(), {.lse = part.lse.view()})
                        .ok());
            parts.push_back({part.out.view(), part.lse.view()});
        }
        REQUIRE(attune::merge_attention(context, parts.data(), 5, both.out.view(), both.lse.view()).ok());
        CHECK(defect(both) == "");
    }
}

TEST_CASE("merge: ranks 2, 3 and 4 are the same rows", "[merge]") {
    attune::Context context({.threads = 2});
    MergeArrays<float> a({.batch = 2, .heads = 3, .queries = 4, .value_dim = 8});
    REQUIRE(a.run(context).ok());
    CHECK(context.last_variant().rfind("merge_f32_", 0) == 0);
    for (const auto &outer : {std::vector<std::int64_t>{6, 4}, {24}}) {
        std::vector<std::int64_t> wide = outer;
        wide.push_back(8);
        Array<float> out(wide, dense_strides(wide), poison<float>(2)), lse(outer, dense_strides(outer), poison<float>(2));
        const auto seen = [](View v, const std::vector<std::int64_t> &extents) {
            const auto strides = dense_strides(extents);
            v.rank = int(extents.size());
            for (std::size_t n = 0; n < extents.size(); n++) v.extent[n] = extents[n], v.stride[n] = strides[n];
            return v;
        };
        const auto status =
            attune::merge_attention(context, seen(a.out_a.view(), wide), seen(a.lse_a.view(), outer),
                                    seen(a.out_b.view(), wide), seen(a.lse_b.view(), outer), out.view(), lse.view());
        INFO(status.message());
        REQUIRE(status.ok());
        CHECK(same_bits(out.values(), a.out.values()));
        CHECK(same_bits(lse.values(), a.lse.values()));
    }
}

TEST_CASE("merge: nothing to merge", "[merge]") {
    attune::Context context;
    for (const auto &[batch, heads, queries] : {std::tuple(0, 2, 3), {2, 0, 3}, {2, 2, 0}}) {
        MergeArrays<float> a({.batch = batch, .heads = heads, .queries = queries});
        CHECK(a.run(context).ok());
        CHECK(context.last_variant().empty());
        CHECK(a.out.untouched());
        CHECK(a.lse.untouched());
    }
}
