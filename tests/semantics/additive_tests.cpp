// SPDX-License-Identifier: MIT
// additive_attention through the dispatcher: docs/conventions.md row 27, numbers by hand, and the bounds of its header.
#include "tests/support/additive_case.h"
#include "tests/support/held_case.h"

using namespace attune_test;
using attune::AdditiveOptions, attune::ConstView, attune::View, attune::WeightsMode;

TEST_CASE("additive: one query and two keys by hand", "[additive][semantics]") {
    attune::Context context;
    const float query[] = {1, 2}, key[] = {0.5f, 1, -2, 0.25f, 0, 3}, value[] = {1, 5};
    const float w_query[] = {0.5f, -0.25f, 1, 0}, w_key[] = {1, 0, 0.5f, 0, 2, -1}, w_score[] = {2, -3};
    const float b_query[] = {0.125f, 0}, b_key[] = {0, -0.5f};
    float out = 0, lse = 0, scores[2] = {};
    AdditiveOptions o{.w_query = ConstView(w_query, {2, 2}), .w_key = ConstView(w_key, {2, 3})};
    o.b_query = ConstView(b_query, {2}), o.b_key = ConstView(b_key, {2}), o.w_score = ConstView(w_score, {2}), o.b_score = 0.75;
    o.attention.lse = View(&lse, {1}), o.attention.weights = View(scores, {1, 2}),
    o.attention.weights_mode = WeightsMode::scaled;
    const auto status = attune::additive_attention(context, ConstView(query, {1, 2}), ConstView(key, {2, 3}),
                                                   ConstView(value, {2, 1}), View(&out, {1, 1}), o);
    INFO(status.message());
    REQUIRE(status.ok());
    // W_q q + b_q = (0.125, 1); W_k k + b_k = (-0.5, 3.5) and (1.75, -3.5).
    const double first = 2 * std::tanh(-0.375) - 3 * std::tanh(4.5) + 0.75,
                 second = 2 * std::tanh(1.875) - 3 * std::tanh(-2.5) + 0.75;
    CHECK(std::abs(scores[0] - first) < 2e-6);
    CHECK(std::abs(scores[1] - second) < 2e-6);
    CHECK(std::abs(out - (1 + 4 / (1 + std::exp(first - second)))) < 2e-5);
    CHECK(std::abs(lse - (second + std::log1p(std::exp(first - second)))) < 4e-6);
}

TEST_CASE("additive: there is no 1/sqrt(d), and b_score moves no weight", "[additive][semantics]") {
    attune::Context context;
    const float query[] = {3, 3, 3, 3}, key[] = {0, 0, 0, 0, -3, -3, -3, -3}, value[] = {0, 1};
    float weights[2] = {}, out = 0;
    for (double b_score : {0.0, 5.0}) {
        AdditiveOptions o{.b_score = b_score, .attention = {.weights = View(weights, {1, 2})}};
        REQUIRE(attune::additive_attention(context, ConstView(query, {1, 4}), ConstView(key, {2, 4}), ConstView(value, {2, 1}),
                                           View(&out, {1, 1}), o)
                    .ok());
        CHECK(std::abs(weights[0] - 1 / (1 + std::exp(-4 * std::tanh(3.0)))) < 1e-5);
        CHECK(std::abs(out - weights[1]) < 1e-6);
    }
}

TEST_CASE("additive: the dispatched call over sizes, ranks of work and options", "[additive][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 1;
    for (std::int64_t queries : {1, 2, 7, 33, 100})
        for (std::int64_t keys : {1, 10, 65, 200})
            for (std::int64_t hidden : {1, 8, 40, 128}) {
                AdditiveCase c{.attention = {.query_heads = 2,
                                             .key_heads = 1,
                                             .queries = queries,
                                             .keys = keys,
                                             .head_dim = 6,
                                             .value_dim = hidden,
                                             .key_dim = 19,
                                             .seed = ++seed},
                               .hidden = hidden,
                               .w_query = seed % 2 == 0,
                               .w_key = seed % 3 != 0,
                               .w_score = seed % 5 != 0};
                c.b_query = c.w_query && seed % 4 == 0, c.b_key = c.w_key && seed % 4 == 1;
                if (seed % 5 == 1) c.attention.valid_lens = {0, std::int32_t(keys)};
                if (seed % 7 == 1) c.attention.mask = "ij", c.attention.weights = WeightsMode::probabilities;
                if (seed % 11 == 1) c.attention.dropout = {0.5, seed, 0};
                check_case<float>(context, c);
                if (seed % 4 == 0) check_case<double>(context, c);
            }
}

TEST_CASE("additive: keys projected by the caller give what projecting here gives", "[additive][semantics]") {
    // A decoder projects the encoder's states once, and calls with one query at every step (003).
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 9}) {
        AdditiveCase whole{.attention = {.batch = 3,
                                         .query_heads = 1,
                                         .key_heads = 1,
                                         .queries = queries,
                                         .keys = 40,
                                         .head_dim = 12,
                                         .value_dim = 20,
                                         .key_dim = 20},
                           .hidden = 24,
                           .b_query = true,
                           .b_key = true};
        AdditiveArrays<float> a(whole);
        REQUIRE(a.run(context).ok());
        Array<float> kept({3, 1, 40, 24}), out({3, 1, queries, 20});
        REQUIRE(attune::linear(context, a.base.key.view(), a.w_key.view(), a.b_key.view(), kept.view()).ok());
        AdditiveOptions o = a.options({});
        o.w_key = {}, o.b_key = {}, o.attention.lse = {};
        const auto status =
            attune::additive_attention(context, a.base.query.view(), kept.view(), a.base.value.view(), out.view(), o);
        INFO(status.message());
        REQUIRE(status.ok());
        CHECK(defect(a) == "");
        const auto reference = a.reference<double>().out;
        const Verdict verdict = judge(reference, a.reference<float>().out, out.values());
        INFO(verdict.why);
        CHECK(verdict.right);
    }
}

TEST_CASE("additive: ranks 3 and 2 are one head", "[additive][semantics]") {
    attune::Context context;
    AdditiveCase c{.attention = {.batch = 1,
                                 .query_heads = 1,
                                 .key_heads = 1,
                                 .queries = 6,
                                 .keys = 9,
                                 .head_dim = 4,
                                 .value_dim = 3,
                                 .key_dim = 5}};
    AdditiveArrays<double> a(c);
    REQUIRE(a.run(context).ok());
    for (int rank : {3, 2}) {
        std::vector<double> out(18), lse(6);
        const auto lower = [&](View v) {
            View low = v;
            low.rank = rank;
            for (int n = 0; n < rank; n++) low.extent[n] = v.extent[n + 4 - rank], low.stride[n] = v.stride[n + 4 - rank];
            if (rank == 3) low.extent[0] = 1;
            return low;
        };
        AdditiveOptions o = a.options({});
        o.attention.lse = rank == 3 ? View(lse.data(), {1, 6}) : View(lse.data(), {6});
        const auto status = attune::additive_attention(context, lower(a.base.query.view()), lower(a.base.key.view()),
                                                       lower(a.base.value.view()),
                                                       rank == 3 ? View(out.data(), {1, 6, 3}) : View(out.data(), {6, 3}), o);
        INFO(rank << ' ' << status.message());
        REQUIRE(status.ok());
        CHECK(same_bits(out, a.base.out.values()));
        CHECK(same_bits(lse, a.base.lse.values()));
    }
}

TEST_CASE("additive: a batch entry's bits do not depend on how large its neighbours' numbers are", "[additive][runtime]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 40})
        for (double magnitude : {1.0, 21.0, 30.0, 1e4}) {
            AdditiveCase c{
                .attention = {.batch = 3, .queries = queries, .keys = 70, .value_dim = 16}, .w_query = false, .w_key = false};
            c.attention.weights = WeightsMode::scaled;
            AdditiveArrays<float> small(c), mixed(c);
            for (Array<float> *array : {&mixed.base.query, &mixed.base.key})
                for (std::int64_t b : {0, 2})
                    for (std::int64_t h = 0; h < 2; h++) (*array)(b, h, 0, 3) = float(b ? -magnitude : magnitude);
            INFO(describe(c) << " magnitude " << magnitude);
            REQUIRE(small.run(context).ok());
            REQUIRE(mixed.run(context).ok());
            CHECK(defect(small) == "");
            CHECK(defect(mixed) == "");
            bool same = true;
            for (std::int64_t h = 0; h < 2; h++)
                for (std::int64_t i = 0; i < queries; i++) {
                    for (std::int64_t d = 0; d < 16; d++)
                        same = same && same_bits(small.base.out(1, h, i, d), mixed.base.out(1, h, i, d));
                    for (std::int64_t j = 0; j < 70; j++)
                        same = same && same_bits(small.base.weights(1, h, i, j), mixed.base.weights(1, h, i, j));
                }
            CHECK(same);
        }
}

TEST_CASE("additive: what masked keys hold has no effect, however large", "[additive][semantics]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 40})
        for (bool project : {false, true})
            for (float with : {1e4f, 30.f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
                AdditiveCase c{.attention = {.queries = queries, .keys = 70, .value_dim = 16, .valid_lens = {3, 69}},
                               .w_query = project,
                               .w_key = project};
                AdditiveArrays<float> clean(c), masked(c);
                for (std::int64_t h = 0; h < 2; h++) masked.base.key(0, h, 3, 1) = masked.base.key(1, h, 69, 2) = with;
                INFO(describe(c) << " with " << with);
                REQUIRE(clean.run(context).ok());
                REQUIRE(masked.run(context).ok());
                CHECK(defect(masked) == "");
                CHECK(same_bits(clean.base.out.values(), masked.base.out.values()));
                CHECK(same_bits(clean.base.lse.values(), masked.base.lse.values()));
            }
}

TEST_CASE("additive: the same bits over 1, 2, 3 and 7 threads", "[additive][runtime]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    for (std::int64_t queries : {1, 70})
        for (bool project : {false, true}) {
            AdditiveCase c{.attention = {.batch = 4, .queries = queries, .keys = 300, .value_dim = 64},
                           .hidden = 64,
                           .w_query = project,
                           .w_key = project};
            AdditiveArrays<float> expected(c);
            REQUIRE(expected.run(one).ok());
            for (attune::Context *context : {&two, &three, &seven, &seven}) {
                AdditiveArrays<float> other(c);
                CHECK(other.run(*context).ok());
                CHECK(same_bits(expected.base.out.values(), other.base.out.values()));
                CHECK(same_bits(expected.base.lse.values(), other.base.lse.values()));
            }
        }
}

TEST_CASE("additive: no keys, no queries, no batch", "[additive][semantics]") {
    attune::Context context;
    for (bool project : {false, true}) {
        AdditiveCase c{.attention = {.keys = 0}, .w_query = project, .w_key = project};
        check_case<float>(context, c);
        for (int empty : {0, 1, 2}) {
            AdditiveCase none{.attention = {}, .w_query = project, .w_key = project};
            (empty == 0 ? none.attention.batch : empty == 1 ? none.attention.queries : none.attention.query_heads) = 0;
            AdditiveArrays<float> a(none);
            const auto status = a.run(context);
            INFO(status.message());
            CHECK(status.ok());
            CHECK(a.base.out.untouched());
        }
    }
}

TEST_CASE("additive: bits do not depend on the room behind the keys or on other entries", "[additive]") {
    attune::Context context({.threads = 2});
    for (const std::int64_t queries : {1, 9})
        for (const bool raw : {false, true}) {
            AdditiveCase c{.attention = {.batch = 3, .query_heads = 2, .key_heads = 2, .queries = queries, .keys = 500}};
            c.attention.head_dim = c.attention.value_dim = 16;
            c.attention.weights = raw ? attune::WeightsMode::scaled : attune::WeightsMode::probabilities;
            const auto run = [&](std::int64_t room, std::vector<std::int32_t> held) {
                AdditiveArrays<float> a(c);
                attune::AdditiveOptions o = a.options({});
                o.attention.valid_lens = attune::ConstView(held.data(), {3});
                o.attention.weights.extent[3] = room;
                REQUIRE(attune::additive_attention(context, a.base.query.view(), part_of(a.base.key.view(), 2, 0, room),
                                                   part_of(a.base.value.view(), 2, 0, room), a.base.out.view(), o)
                            .ok());
                return a;
            };
            AdditiveArrays<float> wide = run(500, {30, 0, 200}), narrow = run(200, {30, 0, 200}), other = run(500, {7, 9, 200});
            INFO("queries " << queries << " raw " << raw);
            CHECK(same_bits(wide.base.out.values(), narrow.base.out.values()));
            CHECK(same_bits(wide.base.lse.values(), narrow.base.lse.values()));
            bool same = true;
            for (std::int64_t h = 0; h < 2; h++)
                for (std::int64_t i = 0; i < queries; i++) same = same && same_row(wide.base, other.base, 2, h, i);
            CHECK(same);
        }
}
