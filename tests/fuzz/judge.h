// SPDX-License-Identifier: MIT
// Checks of the random cases: the macros of Catch2 that tests/support uses, which here throw the failed expression and the texts
// of INFO, so that a case can be shrunk and run again. It is included before any header of tests/support.
#pragma once
#define ATTUNE_JUDGE_WITHOUT_CATCH
#include "tests/support/catch.h"
#undef REQUIRE
#undef CHECK
#undef INFO
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace attune_fuzz {

// Texts of the scopes that a check stands in.
class Info {
public:
    explicit Info(std::function<void(std::ostream &)> text) { open().push_back(std::move(text)); }
    ~Info() { open().pop_back(); }
    Info(const Info &) = delete;
    Info &operator=(const Info &) = delete;
    static std::string all() {
        std::ostringstream text;
        for (const auto &write : open()) text << "; ", write(text);
        return text.str();
    }

private:
    static std::vector<std::function<void(std::ostream &)>> &open() {
        static std::vector<std::function<void(std::ostream &)>> texts;
        return texts;
    }
};

// A case that failed, and why.
struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};
inline void check(bool right, const std::string &why) {
    if (!right) throw Failure(why + Info::all());
}
// Checks the defect that a function of tests/support found; empty: none.
inline void check_none(const std::string &defect) { check(defect.empty(), defect); }

}  // namespace attune_fuzz

#define ATTUNE_FUZZ_JOIN2(a, b) a##b
#define ATTUNE_FUZZ_JOIN(a, b) ATTUNE_FUZZ_JOIN2(a, b)
#define INFO(...) \
    const attune_fuzz::Info ATTUNE_FUZZ_JOIN(info_, __LINE__)([&](std::ostream &attune_to) { attune_to << __VA_ARGS__; })
#define CHECK(...) attune_fuzz::check((__VA_ARGS__), #__VA_ARGS__)
#define REQUIRE(...) CHECK(__VA_ARGS__)
