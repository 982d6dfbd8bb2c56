// SPDX-License-Identifier: MIT
// Expressions of generators/math, compiled for every target of this build, against the C library in a wider type.
#include "dispatch/cpu_features.h"
#include "dispatch/variant_table.h"
#include "execution/halide_call.h"
#include "tests/reference/philox_reference.h"
#include "tests/support/catch.h"
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

// Kernels, listed by CMakeLists.txt: a line MATH_KERNEL(function, dtype, target) each.
#define MATH_KERNEL(function, dtype, target) extern "C" int math_##function##_##dtype##_##target##_argv(void **);
#include "math_kernels.inc"
#undef MATH_KERNEL

namespace {

struct Kernel {
    std::string_view function, dtype, target;
    int (*call)(void **);
};
constexpr Kernel kernels[] = {
#define MATH_KERNEL(function, dtype, target) {#function, #dtype, #target, math_##function##_##dtype##_##target##_argv},
#include "math_kernels.inc"
#undef MATH_KERNEL
};

// Calls f(kernel) for each kernel of a function and type that runs here; prints the names of others.
template<typename F> void for_each_kernel(std::string_view function, std::string_view dtype, const F &f) {
    int ran = 0;
    for (const Kernel &k : kernels) {
        if (k.function != function || k.dtype != dtype) continue;
        if (!attune::runs_here(k.target)) {
            WARN("left out: " << k.function << " " << k.dtype << " for " << k.target << ", this machine lacks "
                              << attune::missing_for(k.target));
            continue;
        }
        INFO(k.function << " " << k.dtype << " " << k.target);
        f(k);
        ran++;
    }
    CHECK(ran > 0);
}

template<typename T> std::vector<T> run(const Kernel &kernel, std::vector<T> x) {
    std::vector<T> out(x.size(), T(-7));
    const auto n = std::int64_t(x.size());
    attune::HalideBuffer in(attune::ConstView(x.data(), {n})), result(attune::ConstView(out.data(), {n}));
    void *args[] = {nullptr, in.get(), result.get()};
    attune::Context context;
    const attune::Status status = attune::call_kernel(attune::state_of(context), kernel.call, args, 1);
    INFO(status.message());
    REQUIRE(status.ok());
    return out;
}

// Samples, half uniform in [low, high], half with uniform exponents.
template<typename T> std::vector<T> samples(double low, double high, unsigned seed) {
    std::mt19937_64 random(seed);
    std::uniform_real_distribution<double> uniform(low, high), exponent(-40, std::log2(std::max(-low, high)));
    std::vector<T> x;
    for (int n = 0; n < 200'000; n++) x.push_back(T(uniform(random)));
    for (int n = 0; n < 200'000; n++) {
        const double v = std::exp2(exponent(random)) * (random() % 2 ? 1 : -1);
        if (v >= low && v <= high) x.push_back(T(v));
    }
    return x;
}

template<typename T> constexpr double either(double f32, double f64) { return sizeof(T) == 4 ? f32 : f64; }
template<typename T> constexpr const char *dtype = sizeof(T) == 4 ? "f32" : "f64";

template<typename T, typename Exact>
void check_error(std::string_view function, double low, double high, double largest_error, const Exact &exact) {
    constexpr unsigned seed = 11;
    const auto x = samples<T>(low, high, seed);
    for_each_kernel(function, dtype<T>, [&](const Kernel &k) {
        const auto y = run(k, x);
        double most = 0;
        T where = 0;
        for (std::size_t n = 0; n < x.size(); n++) {
            const long double e = exact(static_cast<long double>(x[n]));
            const double error = double(std::abs((static_cast<long double>(y[n]) - e) / e));
            if (!(error <= most)) most = error, where = x[n];
        }
        INFO("seed " << seed << ", largest relative error " << most << " at " << where);
        CHECK(most <= largest_error);
    });
}

}  // namespace

TEMPLATE_TEST_CASE("math: tanh is right to a few roundings everywhere", "[math]", float, double) {
    check_error<TestType>("tanh", -25, 25, either<TestType>(3.6e-7, 4e-16), [](long double x) { return std::tanh(x); });
}

TEMPLATE_TEST_CASE("math: tanh of zeros, infinities, NaN and numbers beyond the fit", "[math]", float, double) {
    using T = TestType;
    const T infinity = std::numeric_limits<T>::infinity(), tiny = std::numeric_limits<T>::denorm_min() * 1000;
    for_each_kernel("tanh", dtype<T>, [&](const Kernel &k) {
        const auto y =
            run<T>(k, {0, -T(0), infinity, -infinity, std::numeric_limits<T>::quiet_NaN(), T(1e30), T(-1e30), 50, tiny});
        CHECK((y[0] == 0 && !std::signbit(y[0])));
        CHECK((y[1] == 0 && std::signbit(y[1])));
        CHECK(y[2] == 1);
        CHECK(y[3] == -1);
        CHECK(std::isnan(y[4]));
        CHECK(y[5] == 1);
        CHECK(y[6] == -1);
        CHECK(y[7] == 1);
        CHECK(std::abs(y[8] - tiny) <= tiny / 500);
    });
}

TEMPLATE_TEST_CASE("math: e^x in its range", "[math]", float, double) {
    const double limit = either<TestType>(44, 350);
    check_error<TestType>("exp", -limit, limit, either<TestType>(1.2e-7, 2.5e-16), [](long double x) { return std::exp(x); });
    for_each_kernel("exp", dtype<TestType>, [&](const Kernel &k) {
        const auto y = run<TestType>(k, {0, std::numeric_limits<TestType>::quiet_NaN()});
        CHECK(y[0] == 1);
        CHECK(std::isnan(y[1]));
    });
}

TEMPLATE_TEST_CASE("math: 2^x of what is not positive", "[math]", float, double) {
    using T = TestType;
    check_error<T>("exp2", either<T>(-126, -1022), 0, either<T>(1.8e-7, 4e-16), [](long double x) { return std::exp2(x); });
    for_each_kernel("exp2", dtype<T>, [&](const Kernel &k) {
        const T infinity = std::numeric_limits<T>::infinity();
        const auto y = run<T>(k, {0, T(either<T>(-127, -1023)), -5000, -infinity, std::numeric_limits<T>::quiet_NaN()});
        CHECK(y[0] == 1);
        CHECK(y[1] == 0);
        CHECK(y[2] == 0);
        CHECK(y[3] == 0);
        CHECK(std::isnan(y[4]));
    });
}

TEST_CASE("math: 2^x by instructions, where there are any, and what is rounded to bf16", "[math]") {
    const auto exact = [](long double x) { return std::exp2(x); };
    check_error<float>("exp2by", -126, 0, 1.8e-7, exact);
    check_error<float>("exp2bf16", -126, 0, 3e-6, exact);
    check_error<float>("exp2bf16by", -126, 0, 3e-6, exact);
    for (const char *function : {"exp2by", "exp2bf16", "exp2bf16by"})
        for_each_kernel(function, "f32", [](const Kernel &k) {
            const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
            // Enough to fill vectors, and some more: each number in each lane.
            const std::vector<float> x = {0, -150, -5000, -1e30f, -infinity, nan, -1};
            std::vector<float> all;
            for (int n = 0; n < 101; n++) all.push_back(x[std::size_t(n) % x.size()]);
            const auto y = run<float>(k, all);
            bool right = true;
            for (std::size_t n = 0; n < all.size(); n++)
                right = right && (all[n] == 0          ? y[n] == 1
                                  : all[n] == -1       ? std::abs(y[n] - 0.5f) < 1e-4f
                                  : std::isnan(all[n]) ? std::isnan(y[n])
                                                       : y[n] == 0);
            CHECK(right);
        });
}

TEST_CASE("math: Philox4x32-10 by the words of Random123 and of the reference", "[math]") {
    using Words = std::array<std::uint32_t, 4>;
    using Key = std::array<std::uint32_t, 2>;
    constexpr unsigned seed = 5;
    std::mt19937 random(seed);
    for_each_kernel("philox", "u32", [&](const Kernel &k) {
        const auto words = [&](Words counter, Key key) {
            // Word n of counter + (i, 0, 0, 0) at 19 * n + i.
            std::vector<std::int32_t> out(4 * 19, -1);
            attune::HalideBuffer buffer(attune::ConstView(out.data(), {4, 19}));
            buffer.get()->type = {halide_type_uint, 32, 1};
            void *args[] = {nullptr, &counter[0], &counter[1], &counter[2], &counter[3], &key[0], &key[1], buffer.get()};
            attune::Context context;
            const attune::Status status = attune::call_kernel(attune::state_of(context), k.call, args, 1);
            INFO(status.message());
            REQUIRE(status.ok());
            return out;
        };
        const auto first = [&](Words counter, Key key) {
            const auto all = words(counter, key);
            return Words{std::uint32_t(all[0]), std::uint32_t(all[19]), std::uint32_t(all[38]), std::uint32_t(all[57])};
        };
        constexpr std::uint32_t ones = 0xffffffffu;
        CHECK(first({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
        CHECK(first({ones, ones, ones, ones}, {ones, ones}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
        CHECK(first({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
        for (int round = 0; round < 50; round++) {
            INFO("seed " << seed << " round " << round);
            const Words counter{std::uint32_t(random()), std::uint32_t(random()), std::uint32_t(random()),
                                std::uint32_t(random())};
            const Key key{std::uint32_t(random()), std::uint32_t(random())};
            const auto all = words(counter, key);
            bool same = true;
            for (std::uint32_t i = 0; i < 19; i++) {
                const auto expected = attune_test::philox4x32_10({counter[0] + i, counter[1], counter[2], counter[3]}, key);
                for (std::size_t n = 0; n < 4; n++) same = same && std::uint32_t(all[19 * n + i]) == expected[n];
            }
            CHECK(same);
        }
    });
}

TEMPLATE_TEST_CASE("math: blocks are transposed", "[math]", std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t) {
    using T = TestType;
    const std::string type = "u" + std::to_string(8 * sizeof(T));
    const std::string by = GENERATE(as<std::string>{}, "", "group");  // form of the loads
    int sides = 0;
    for (std::int64_t side : {2, 4, 8, 16, 32}) {
        const std::string function = by + "transpose" + std::to_string(side);
        if (std::none_of(std::begin(kernels), std::end(kernels),
                         [&](const Kernel &k) { return k.function == function && k.dtype == type; }))
            continue;
        sides++;
        for_each_kernel(function, type, [&](const Kernel &k) {
            const std::int64_t rows = 3 * side, columns = 2 * side;
            std::vector<T> in(std::size_t(rows * columns)), out(in.size());
            std::mt19937_64 random(3);
            for (T &x : in) x = T(random());
            attune::HalideBuffer from(attune::ConstView(reinterpret_cast<float *>(in.data()), {rows, columns})),
                to(attune::ConstView(reinterpret_cast<float *>(out.data()), {columns, rows}));
            from.get()->type = to.get()->type = {halide_type_uint, 8 * sizeof(T), 1};
            void *args[] = {nullptr, from.get(), to.get()};
            attune::Context context;
            const attune::Status status = attune::call_kernel(attune::state_of(context), k.call, args, 1);
            INFO(status.message());
            REQUIRE(status.ok());
            bool same = true;
            for (std::int64_t r = 0; r < rows; r++)
                for (std::int64_t c = 0; c < columns; c++)
                    same = same && out[std::size_t(c * rows + r)] == in[std::size_t(r * columns + c)];
            CHECK(same);
        });
    }
    CHECK(sides > 0);
}
