// SPDX-License-Identifier: MIT
// Catch2, of major version 2 or 3. The tuner checks its candidates with these headers, too: there a failed REQUIRE throws.
#pragma once
#if defined(ATTUNE_JUDGE_WITHOUT_CATCH)
#include <stdexcept>
#define REQUIRE(...) \
    do { \
        if (!(__VA_ARGS__)) throw std::runtime_error(#__VA_ARGS__); \
    } while (false)
#define CHECK(...) REQUIRE(__VA_ARGS__)
#define INFO(...) static_cast<void>(0)
#elif __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;  // as version 2 has it
namespace attune_test {
inline auto contains_text(const std::string &text) { return Catch::Matchers::ContainsSubstring(text); }
}  // namespace attune_test
#else
#include <catch2/catch.hpp>
namespace attune_test {
inline auto contains_text(const std::string &text) { return Catch::Matchers::Contains(text); }
}  // namespace attune_test
#endif
