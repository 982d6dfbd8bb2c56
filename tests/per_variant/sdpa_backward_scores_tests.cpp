// SPDX-License-Identifier: MIT
// Gradients of the scores other than the scaled dot product: central differences, the reference, bits.
#include "tests/support/backward_grid.h"
#include "tests/support/environment.h"
#include "tests/support/option_sets.h"
#include "tests/support/sdpa_differences.h"

using namespace attune_test;
using attune::Causal, attune::Score;

namespace {
const std::vector<Score> scores = {Score::general, Score::cosine, Score::gaussian};

template<typename F> void for_each_score(const F &f) {
    attune::Context context(in_fenced_scratch());
    unsigned seed = 1;
    for (Score score : scores)
        for (const auto &[queries, keys] : {std::pair(1, 70), {6, 9}, {66, 67}, {37, 5}})
            for (const auto &[head_dim, value_dim] : {std::pair(1, 2), {17, 21}, {64, 64}}) {
                SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = queries, .keys = keys}};
                c.forward.head_dim = head_dim, c.forward.value_dim = value_dim, c.forward.score = score;
                c.forward.seed = seed++, c.grad_lse = seed % 2;
                // The cosine of one channel is a constant: tested below.
                if (score == Score::cosine) c.forward.head_dim = std::max(head_dim, 2);
                if (score == Score::general) c.forward.key_dim = head_dim + 2;
                // Distances stay in the range where exp() does not underflow.
                if (score == Score::gaussian) c.forward.scale = 1.0 / double(head_dim);
                f(context, c);
            }
}
}  // namespace

TEST_CASE("gradients: of every score against the reference", "[sdpa_backward][semantics]") {
    for_each_score([](attune::Context &context, SdpaBackwardCase c) {
        check_backward<float>(context, c);
        c.forward.causal = Causal::bottom_right, c.forward.valid_lens = {std::int32_t(c.forward.keys), 3};
        check_backward<float>(context, c);
        check_backward<double>(context, c);
    });
}

TEST_CASE("gradients: of every score under every option", "[sdpa_backward][semantics]") {
    for_each_score([](attune::Context &context, SdpaBackwardCase c) {
        SdpaCase &f = c.forward;
        f.softcap = 2, f.bias = "hij", f.hole = option_sets::minus_infinity, f.alibi = Alibi::per_batch, f.sinks = true;
        f.mask = "b1ij", f.dropout = {0.3, f.seed, 0}, f.causal = Causal::bottom_right;
        check_backward<float>(context, c);
        check_backward<double>(context, c);
    });
}

TEST_CASE("gradients by variant: of bias and slopes, by every kernel of theirs", "[sdpa_backward][per_variant]") {
    for (const auto &[op, score] : {std::pair(std::string_view("capture_gradient"), Score::dot_product),
                                    {"cosine_capture_gradient", Score::cosine},
                                    {"gaussian_capture_gradient", Score::gaussian}})
        for_each_variant(op, knows_dropout, [score = score](const attune::VariantInfo &v, auto zero) {
            const Environment force("ATTUNE_FORCE_VARIANT", std::string(v.name));
            attune::Context context(in_fenced_scratch());
            unsigned seed = 700;
            for (const auto &[queries, keys] : {std::pair(1, 1), {65, 3}, {3, 67}})
                for (const char *bias : {"hij", "b1i1", "j"}) {
                    SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = queries, .keys = keys}};
                    c.forward.head_dim = 5, c.forward.value_dim = 3, c.forward.score = score, c.forward.seed = seed++;
                    if (score == Score::gaussian) c.forward.scale = 0.2;
                    c.forward.softcap = 2, c.forward.bias = bias, c.forward.alibi = Alibi::per_head;
                    check_dispatched<decltype(zero)>(context, c);
                }
        });
}

TEST_CASE("gradients: the cosine of one channel is 1 or -1 whatever its size, so nothing but rounding is left",
          "[sdpa_backward][semantics]") {
    attune::Context context(in_fenced_scratch());
    SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = 66, .keys = 67}};
    c.forward.head_dim = 1, c.forward.value_dim = 2, c.forward.score = Score::cosine;
    SdpaBackwardArrays<double> a(c);
    REQUIRE(a.run_forward(context).ok());
    REQUIRE(a.run(context).ok());
    for (auto *gradient : {&a.grad_query, &a.grad_key}) {
        double largest = 0;
        for (double x : gradient->values()) largest = std::max(largest, std::abs(x));
        CHECK(largest < 1e-12);
    }
}

TEST_CASE("gradients: central differences of every score", "[sdpa_backward][semantics]") {
    check_small_cases(option_sets::options_of_scores(scores));
}

TEST_CASE("runtime: gradients of a score have the same bits whichever are wanted", "[sdpa_backward][runtime]") {
    attune::Context one({.threads = 1}), seven({.threads = 7});
    for (Score score : scores) {
        SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = 70, .keys = 90, .head_dim = 16}};
        c.forward.value_dim = 20, c.forward.score = score, c.forward.sinks = true;
        SdpaBackwardArrays<float> clean(c);
        REQUIRE(clean.run_forward(one).ok());
        auto all = clean;
        INFO(describe(c));
        REQUIRE(all.run(one).ok());
        for (unsigned wanted = 0; wanted <= want_all; wanted++) {
            if (wanted & (want_bias | want_slopes)) continue;
            auto some = clean;
            CHECK(some.run(seven, {}, wanted).ok());
            CHECK(some.bits(wanted) == all.bits(wanted));
        }
    }
}

TEST_CASE("gradients: a key that nobody sees has no part in that of score_weight", "[sdpa_backward][semantics]") {
    attune::Context context(in_fenced_scratch());
    SdpaBackwardCase c{.forward = {.queries = 9, .keys = 70, .head_dim = 5, .key_dim = 7, .score = Score::general}};
    c.forward.valid_lens = {66, 0};
    SdpaBackwardArrays<float> clean(c), spoiled(c);
    for (std::int64_t b : {0, 1})
        for (std::int64_t h : {0, 1})
            for (std::int64_t j = b == 0 ? 66 : 0; j < 70; j++) spoiled.forward.key(b, h, j, 3) = std::nanf("");
    for (auto *a : {&clean, &spoiled}) {
        REQUIRE(a->run_forward(context).ok());
        REQUIRE(a->run(context).ok());
    }
    CHECK(clean.bits() == spoiled.bits());
}

TEST_CASE("gradients by variant: of cosines, of rows from 1e-30 to 1e30", "[sdpa_backward][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_wide_variant("cosine_backward", any_kind, [&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        const int most = std::is_same_v<T, float> ? 100 : 990;
        for (const auto &[queries, keys] : {std::pair(1, 70), {67, 9}, {6, 130}}) {
            SdpaBackwardCase c{.forward = {.query_heads = 2, .key_heads = 1, .queries = queries, .keys = keys, .head_dim = 19}};
            c.forward.score = Score::cosine, c.forward.value_dim = 7, c.forward.seed = unsigned(7100 + queries);
            c.forward.causal = Causal::bottom_right;
            SdpaBackwardArrays<T> unit(c), scaled(c);
            std::mt19937 random(c.forward.seed);
            std::uniform_int_distribution<int> power(-most, most);
            std::vector<int> of_query(std::size_t(2 * 2 * queries)), of_key(std::size_t(2 * keys));
            const auto scale = [](Array<T> &rows, const std::vector<int> &by, int sign) {
                std::size_t n = 0;
                const std::size_t width = std::size_t(rows.view().extent[3]);
                rows.each([&](T &x) { x = std::ldexp(x, sign * by[n++ / width]); });
            };
            for (std::vector<int> *powers : {&of_query, &of_key})
                for (std::size_t n = 0; n < powers->size(); n++) (*powers)[n] = n == 0 ? most : n == 1 ? -most : power(random);
            scale(scaled.forward.query, of_query, 1), scale(scaled.forward.key, of_key, 1);
            INFO(describe(c));
            for (auto *a : {&unit, &scaled}) {
                REQUIRE(a->run_forward(context).ok());
                REQUIRE(a->run(context, v.name).ok());
            }
            scale(scaled.grad_query, of_query, 1), scale(scaled.grad_key, of_key, 1);
            CHECK(same_bits(unit.grad_query.values(), scaled.grad_query.values()));
            CHECK(same_bits(unit.grad_key.values(), scaled.grad_key.values()));
            CHECK(same_bits(unit.grad_value.values(), scaled.grad_value.values()));
            CHECK(defect(unit, ExpectedGradients<T>(unit)) == "");
        }
    });
}
