// SPDX-License-Identifier: MIT
// Random problems over the whole range of magnitudes: wherever the plain computation is finite, ours is finite and as accurate.
// And scales of any sign and size.
#include "tests/support/sdpa_backward_case.h"
#include <cmath>
#include <map>
#include <sstream>

using namespace attune_test;

namespace {

// The largest decimal exponent by which elements of a type are multiplied.
template<typename T> int most_exponent() { return std::is_same_v<T, Float16> ? 2 : 30; }

struct Random {
    std::mt19937 bits;
    double real(double from, double to) { return std::uniform_real_distribution<double>(from, to)(bits); }
    int integer(int from, int to) { return std::uniform_int_distribution<int>(from, to)(bits); }
    std::int64_t one_of(std::initializer_list<std::int64_t> list) { return list.begin()[integer(0, int(list.size()) - 1)]; }
};

// Decimal exponents of queries, keys and values, and of the resulting scores.
struct Exponents {
    double query, key, value, score;
};
template<typename T> Exponents random_exponents(Random &random) {
    const double most = most_exponent<T>(), query = random.real(-most, most), wanted = random.real(-3, 2);
    const double key = std::clamp(wanted - query, -most, most);
    return {query, key, random.real(-most, most), query + key};
}

// A problem with enough rows that the plain computation of all of them is not exact by luck, and with nearly tied scores where
// they are large.
SdpaCase random_case(Random &random, const Exponents &e, unsigned seed) {
    const std::int64_t size = random.one_of({16, 17, 32, 64, 80, 128}), queries = random.one_of({1, 3, 17, 40});
    SdpaCase c{.batch = 1, .query_heads = queries < 17 ? 24 : random.one_of({2, 4}), .key_heads = 2, .queries = queries};
    c.keys = random.one_of({1, 5, 33, 65, 96, 150}), c.head_dim = c.value_dim = size, c.seed = seed;
    if (e.score > 0) c.key_noise = std::pow(10, -e.score);
    if (random.integer(0, 2) == 0) c.causal = attune::Causal::bottom_right;
    if (random.integer(0, 3) == 0) c.bias = "ij";
    if (random.integer(0, 5) == 0) c.softcap = random.real(1, 50);
    if (random.integer(0, 5) == 0) c.sinks = true;
    return c;
}

template<typename T> void multiply(Array<T> &x, double by) {
    x.each([&](T &e) { e = T(double(Sum<T>(e)) * by); });
}

// Multiplies the operands. In half of the problems all scores are shifted by channel 0, whose product all pairs share.
template<typename T> void spread(Random &random, const Exponents &e, SdpaArrays<T> &a) {
    multiply(a.query, std::pow(10, e.query)), multiply(a.key, std::pow(10, e.key)), multiply(a.value, std::pow(10, e.value));
    if (random.integer(0, 1)) return;
    const double shift = std::pow(10, random.real(0, is_half<T> ? 2 : 6)) * (random.integer(0, 1) ? 1 : -1);
    const double of_query = std::pow(10, std::clamp(e.query, -15., 15.)), scale = 1 / std::sqrt(double(a.the.head_dim));
    for (std::int64_t h = 0; h < a.the.query_heads; h++)
        for (std::int64_t i = 0; i < a.the.queries; i++) a.query(0, h, i, 0) = T(of_query);
    for (std::int64_t h = 0; h < a.the.key_heads; h++)
        for (std::int64_t j = 0; j < a.the.keys; j++) a.key(0, h, j, 0) = T(shift / of_query / scale);
}

// Whether a result of these sizes and its terms fit the type: normal numbers with a margin for rounding.
template<typename T, typename Values> bool fits_type(const Values &sizes) {
    double largest = 0;
    for (auto x : sizes) largest = std::max(largest, std::abs(double(x)));
    const double most = double(Sum<T>(std::numeric_limits<T>::max())), least = is_half<T> && most < 1e5 ? 1e-2 : 1e-28;
    return largest == 0 || (largest < most / 16 && largest > least);
}

template<typename Values> bool all_finite(const Values &values) {
    return std::all_of(values.begin(), values.end(), [](auto x) { return std::isfinite(double(x)); });
}
// Whether all results are finite; lse of a row without keys may be -inf.
template<typename Real> bool all_finite(const SdpaResult<Real> &r) {
    const auto counts = [](auto x) { return std::isfinite(double(x)) || double(x) < 0; };
    return all_finite(r.out) && std::all_of(r.lse.begin(), r.lse.end(), counts);
}

constexpr int problems = 500;

// Errors of many problems, each in units of its largest size, judged together by the rule: for a single problem with large
// scores, the plain computation may be exact by luck.
struct Pool {
    double most = 0, most_plain = 0, sum = 0, sum_plain = 0, floor = 0;
    std::int64_t count = 0, not_finite = 0;

    template<typename Real, typename Plain, typename E>
    void add(const std::vector<Real> &exact, const std::vector<Plain> &plain, const std::vector<E> &result,
             const std::vector<Real> &sizes) {
        floor = floor_of<E>();
        double unit = 0;
        for (const Real x : sizes) unit = std::isfinite(double(x)) ? std::max(unit, std::abs(double(x))) : unit;
        for (std::size_t n = 0; unit > 0 && n < exact.size(); n++) {
            not_finite += std::isfinite(double(result[n])) != std::isfinite(double(exact[n]));
            if (!std::isfinite(double(exact[n]))) continue;
            const double error = double(std::abs(Real(result[n]) - exact[n])) / unit;
            const double error_plain = double(std::abs(Real(plain[n]) - exact[n])) / unit;
            most = std::max(most, error), most_plain = std::max(most_plain, error_plain);
            sum += error, sum_plain += error_plain, count++;
        }
    }
    Verdict verdict() const {
        std::ostringstream why;
        why << "maximum error " << most << ", plain " << most_plain << "; sum " << sum << ", plain " << sum_plain << ", floor "
            << floor << " for each of " << count << "; " << not_finite << " not finite where the reference is, or the reverse";
        const bool right = most <= 2 * most_plain + floor && sum <= 2 * sum_plain + floor * double(count);
        return {right && not_finite == 0, why.str(), 0};
    }
};

}  // namespace

TEMPLATE_TEST_CASE("magnitudes: 500 random problems", "[sdpa][semantics][magnitudes]", float, double, BFloat16, Float16) {
    using T = TestType;
    attune::Context context({.threads = 1});
    Pool out, lse;
    int judged = 0;
    for (int n = 0; n < problems; n++) {
        Random random{std::mt19937(9000u + unsigned(n))};
        const Exponents exponents = random_exponents<T>(random);
        SdpaArrays<T> a(random_case(random, exponents, 9000u + unsigned(n)));
        spread(random, exponents, a);
        const auto q = a.query.view(), k = a.key.view(), v = a.value.view();
        const auto options = a.options({});
        const auto plain = plain_sdpa<T>(q, k, v, options);
        // The floor is a share of the magnitudes, since a mean of values of both signs is a difference of larger numbers.
        Array<T> magnitudes = a.value;
        magnitudes.each([](T &e) { e = T(std::abs(double(Sum<T>(e)))); });
        const auto sizes = sdpa_reference<Reference<T>, T>(q, k, magnitudes.view(), options);
        if (!all_finite(plain) || !fits_type<T>(sizes.out)) continue;
        judged++;
        INFO(describe(a.the));
        REQUIRE(a.run(context).ok());
        const auto reference = sdpa_reference<Reference<T>, T>(q, k, v, options);
        out.add(reference.out, plain.out, a.out.values(), sizes.out);
        lse.add(reference.lse, plain.lse, a.lse.values(), reference.lse);
    }
    INFO("out: " << out.verdict().why);
    CHECK(out.verdict().right);
    INFO("lse: " << lse.verdict().why);
    CHECK(lse.verdict().right);
    INFO(judged << " of " << problems << " have a plain computation that is finite");
    CHECK(judged > problems / 2);
}

TEMPLATE_TEST_CASE("magnitudes: gradients of 500 random problems", "[sdpa_backward][semantics][magnitudes]", float, double,
                   BFloat16, Float16) {
    using T = TestType;
    attune::Context context({.threads = 1});
    std::map<std::string, Pool> pools;
    int judged = 0;
    for (int n = 0; n < problems; n++) {
        Random random{std::mt19937(9900u + unsigned(n))};
        const Exponents exponents = random_exponents<T>(random);
        SdpaBackwardArrays<T> a({.forward = random_case(random, exponents, 9900u + unsigned(n))});
        spread(random, exponents, a.forward);
        REQUIRE(a.run_forward(context).ok());
        if (!all_finite(a.forward.out.values())) continue;
        const ExpectedGradients<T> expected(a);
        bool finite = true;
        // The terms of a sum must fit the type, too, even if they cancel.
        a.each_gradient([&](const char *, unsigned, auto &, auto member) {
            finite = finite && all_finite(member(expected.plain)) && fits_type<T>(member(expected.sizes));
        });
        if (!finite) continue;
        judged++;
        INFO(describe(a.the));
        REQUIRE(a.run(context).ok());
        a.each_gradient([&](const std::string &name, unsigned, auto &array, auto member) {
            pools[name].add(member(expected.exact), member(expected.plain), array.values(), member(expected.sizes));
        });
    }
    for (const auto &[name, pool] : pools) {
        INFO(name << ": " << pool.verdict().why);
        CHECK(pool.verdict().right);
    }
    INFO(judged << " of " << problems << " have a plain computation that is finite");
    CHECK(judged > problems / 2);
}

TEMPLATE_TEST_CASE("scales of any sign and size, and none", "[sdpa][semantics][magnitudes]", float, double, BFloat16, Float16) {
    attune::Context context({.threads = 2});
    unsigned seed = 9500;
    for (const double scale : {0., -0.125, -1., -3.5, 1e-33, 2e-38, 7.})
        for (const auto &[queries, keys] : {std::pair<std::int64_t, std::int64_t>(1, 200), {5, 300}, {40, 70}, {130, 260}})
            for (const std::int64_t size : {64, 20}) {
                SdpaCase c{
                    .query_heads = 4, .key_heads = 2, .queries = queries, .keys = keys, .head_dim = size, .value_dim = size};
                c.scale = scale, c.seed = seed++;
                if (std::abs(scale) > 1) c.key_noise = 0.1 / std::abs(scale);
                if (seed % 3 == 0) c.causal = attune::Causal::bottom_right;
                check_case<TestType>(context, c);
            }
}
