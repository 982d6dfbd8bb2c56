// SPDX-License-Identifier: MIT
// Tests of the tests' tools: the reference against numbers worked out by hand, and the error rule, which must be able to fail.
#include "tests/support/sdpa_arrays.h"

using namespace attune_test;

namespace {
struct Judged {
    std::vector<double> reference;
    std::vector<float> plain, result;
};
// A computation in float with ordinary errors.
Judged right_result() {
    SdpaArrays<float> a({.queries = 9, .keys = 200});
    const auto q = a.query.view(), k = a.key.view(), v = a.value.view();
    Judged j{sdpa_reference<double, float>(q, k, v, {}).out, sdpa_reference<float, float>(q, k, v, {}).out, {}};
    j.result = j.plain;
    return j;
}
}  // namespace

TEST_CASE("reference: two keys by hand", "[support]") {
    const float query[] = {2, 0, 0, 0}, key[] = {1, 0, 0, 0, 3, 0, 0, 0}, value[] = {1, 10, 2, 20};
    const attune::ConstView q(query, {1, 1, 4}), k(key, {1, 2, 4}), v(value, {1, 2, 2});
    // Scores 1 and 3 (scale 1/2): weights 1/(1 + e^2) and e^2/(1 + e^2).
    const double e2 = std::exp(2.0), w = 1 / (1 + e2);
    const auto r = sdpa_reference<double, float>(q, k, v, {});
    CHECK(std::abs(r.out[0] - (2 - w)) < 1e-14);
    CHECK(std::abs(r.out[1] - (20 - 10 * w)) < 1e-13);
    CHECK(std::abs(r.lse[0] - (1 + std::log(1 + e2))) < 1e-14);
    const auto causal = sdpa_reference<double, float>(q, k, v, {.causal = attune::Causal::top_left});
    CHECK(causal.out == std::vector<double>{1, 10});
    CHECK(causal.lse == std::vector<double>{1});
    const auto none = sdpa_reference<double, float>(q, k, v, {.causal = attune::Causal::offset, .offset = -1});
    CHECK(none.out == std::vector<double>{0, 0});
    CHECK(none.lse == std::vector<double>{-std::numeric_limits<double>::infinity()});
}

TEST_CASE("reference: which keys take part, by hand", "[support]") {
    const auto row = [](const attune::SdpaOptions &o, std::int64_t b, std::int64_t i) {
        std::string kept;
        for (std::int64_t j = 0; j < 6; j++) kept += takes_part(o, b, i, j, 4, 6) ? '1' : '0';
        return kept;
    };
    const std::int32_t lens[] = {2, 5}, offsets[] = {-1, 3};
    CHECK(row({}, 0, 0) == "111111");
    CHECK(row({.causal = attune::Causal::top_left}, 0, 1) == "110000");
    CHECK(row({.causal = attune::Causal::bottom_right}, 0, 1) == "111100");
    CHECK(row({.causal = attune::Causal::bottom_right, .offset = 0}, 0, 1) == "110000");
    CHECK(row({.window = {1, 0}}, 0, 2) == "011000");
    CHECK(row({.causal = attune::Causal::bottom_right, .window = {1, -1}}, 0, 2) == "000110");
    CHECK(row({.window = {1, 1}, .valid_lens = {lens, {2}}}, 0, 2) == "010000");
    CHECK(row({.causal = attune::Causal::offset, .offsets = {offsets, {2}}}, 0, 0) == "000000");
    CHECK(row({.causal = attune::Causal::offset, .offsets = {offsets, {2}}, .valid_lens = {lens, {2}}}, 1, 3) == "111110");
}

TEST_CASE("error rule: accepts the plain computation", "[support]") {
    const Judged j = right_result();
    CHECK(judge(j.reference, j.plain, j.result).right);
    CHECK_FALSE(suspiciously_empty(j.reference, j.result));
}

TEST_CASE("error rule: rejects a slightly wrong result", "[support]") {
    Judged j = right_result();
    SECTION("one element off by a hundred-thousandth") { j.result[77] += 1e-5f; }
    SECTION("every element off by a millionth") {
        for (float &x : j.result) x += 1e-6f;
    }
    SECTION("one element NaN") { j.result[3] = std::nanf(""); }
    SECTION("one element infinite") { j.result[3] = std::numeric_limits<float>::infinity(); }
    SECTION("one element missing") { j.result.pop_back(); }
    SECTION("all zeros") {
        std::fill(j.result.begin(), j.result.end(), 0.f);
        CHECK(suspiciously_empty(j.reference, j.result));
    }
    SECTION("the last key left out") {
        SdpaArrays<float> a({.queries = 9, .keys = 200});
        const std::int32_t lens[] = {199, 199};
        j.result = sdpa_reference<float, float>(a.query.view(), a.key.view(), a.value.view(), {.valid_lens = {lens, {2}}}).out;
    }
    const Verdict verdict = judge(j.reference, j.plain, j.result);
    INFO(verdict.why);
    CHECK_FALSE(verdict.right);
}

TEST_CASE("error rule: NaN and infinity have to be where the reference has them", "[support]") {
    const double infinity = std::numeric_limits<double>::infinity(), nan = std::nan("");
    const float infinity32 = std::numeric_limits<float>::infinity();
    CHECK(judge<double, float>({1, -infinity, nan}, {1, -infinity32, 0}, {1, -infinity32, std::nanf("")}).right);
    CHECK_FALSE(judge<double, float>({1, -infinity}, {1, -infinity32}, {1, infinity32}).right);
    CHECK_FALSE(judge<double, float>({1, -infinity}, {1, -infinity32}, {1, -1e38f}).right);
    CHECK_FALSE(judge<double, float>({1, nan}, {1, std::nanf("")}, {1, 0}).right);
}

TEST_CASE("error rule: small results hide nothing behind the floor", "[support]") {
    // Half the elements lost where the values are tiny: below any absolute tolerance, but not right.
    Judged j = right_result();
    for (double &x : j.reference) x *= 1e-6;
    for (float &x : j.plain) x *= 1e-6f;
    j.result = j.plain;
    for (std::size_t n = 0; n < j.result.size(); n += 2) j.result[n] = 0;
    CHECK_FALSE(judge(j.reference, j.plain, j.result).right);
}

TEST_CASE("arrays: gaps are seen, and so is what was not written", "[support]") {
    for (Layout layout : {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed}) {
        INFO(name_of(layout));
        Array<float> a({2, 3, 4, 5}, layout);
        CHECK(a.untouched());
        float next = 0;
        a.each([&](float &x) { x = next++; });
        CHECK(next == 120);
        CHECK(a(1, 2, 3, 4) == 119);
        CHECK(a(1, 0, 2, 1) == 71);
        CHECK(a.all_written());
        CHECK(a.gaps_untouched());
        a(1, 1, 1, 1) = poison<float>(1);
        CHECK_FALSE(a.all_written());
        *(layout == Layout::reversed ? &a(1, 2, 3, 0) - 1 : &a(1, 2, 3, 4) + 1) = 0;
        CHECK_FALSE(a.gaps_untouched());
    }
}

TEST_CASE("arrays: of bool, a byte that is neither true nor false was not written", "[support]") {
    Array<bool> a({2, 3}, {5, 1});
    CHECK(a.untouched());
    CHECK_FALSE(a.all_written());
    int n = 0;
    a.each([&](bool &x) { x = n++ % 2; });
    CHECK(a.all_written());
    CHECK(a.gaps_untouched());
    CHECK(a.values() == std::vector<bool>{false, true, false, true, false, true});
    a.data()[3] = true;
    CHECK_FALSE(a.gaps_untouched());
}

TEST_CASE("reference: softcap, bias, sinks and dropout, by hand", "[support]") {
    const float query[] = {0}, key[] = {0, 0}, value[] = {1, 2}, bias[] = {0, 1}, sink[] = {2};
    const attune::ConstView q(query, {1, 1}), k(key, {2, 1}), v(value, {2, 1});
    float space[2];
    attune::SdpaOptions o{.bias = {bias, {2}}, .sinks = {sink, {1}}, .dropout = {1, 0, 0}, .weights = {space, {1, 2}}};
    const double sum = 1 + std::exp(1.0) + std::exp(2.0);
    const auto r = sdpa_reference<double, float>(q, k, v, o);
    CHECK(r.out == std::vector<double>{0});
    CHECK(std::abs(r.lse[0] - std::log(sum)) < 1e-15);
    CHECK(std::abs(r.weights[0] - 1 / sum) < 1e-15);
    CHECK(std::abs(r.weights[1] - std::exp(1.0) / sum) < 1e-15);
    o.dropout = {}, o.bias = {}, o.softcap = 2, o.weights_mode = attune::WeightsMode::capped, o.sinks = {};
    const float large[] = {4};
    const auto capped = sdpa_reference<double, float>({large, {1, 1}}, {large, {1, 1}}, {value, {1, 1}}, o);
    CHECK(std::abs(capped.weights[0] - 2 * std::tanh(8.0)) < 1e-15);
}
