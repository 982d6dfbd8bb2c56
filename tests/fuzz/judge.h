// SPDX-License-Identifier: MIT
// Checks of the random cases: the macros of Catch2 that tests/support uses, which here throw the failed expression and the
// texts of INFO, so that a case can be shrunk and run again. It is included before any header of tests/support.
#pragma once
#define ATTUNE_JUDGE_WITHOUT_CATCH
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
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

// Errors of judged results over several draws of the data of one case: the error rule is a rule of samples, and a case of one
// element is none.
struct Errors {
    double most = 0, most_plain = 0, sum = 0, sum_plain = 0, largest = 0, magnitude = 0;
    std::size_t count = 0;
    void add(double error, double error_plain, double size) {
        most = std::max(most, error), most_plain = std::max(most_plain, error_plain), largest = std::max(largest, size);
        sum += error, sum_plain += error_plain, magnitude += size, count++;
    }
    std::string defect(double unit) const {
        const double n = double(std::max<std::size_t>(count, 1)), allowed = 2 * most_plain + unit * largest,
                     mean_allowed = (2 * sum_plain + unit * magnitude) / n;
        std::ostringstream why;
        if (!(most <= allowed && sum / n <= mean_allowed))
            why << "over all draws maximum error " << most << ", allowed " << allowed << "; mean error " << sum / n
                << ", allowed " << mean_allowed;
        return why.str();
    }
};
// Errors of one call of judge() in the case, as they are and in units of the largest element of each draw. The first sample is
// that of the draws with large results, the second that of draws with results near zero. Where results of draws differ by
// orders of magnitude one draw decides either, so the rule must hold in one of them.
struct PooledErrors {
    Errors as_they_are, of_largest;
    double unit = 0;
    std::string defect() const {
        const std::string first = as_they_are.defect(unit), second = of_largest.defect(unit);
        return first.empty() || second.empty() ? "" : first + "; in units of each draw's largest: " + second;
    }
};
struct Pool {
    bool active = false;
    std::size_t next = 0;
    std::vector<PooledErrors> errors = {};
};
inline Pool pool;
// Whether a result broke the error rule on the data of one draw.
inline bool broke_error_rule = false;

}  // namespace attune_fuzz

namespace attune_test {

// judge() of the error rule, or in a pool the collection of its errors.
template<typename Real, typename T>
Verdict pooled_judge(const std::vector<Real> &reference, const std::vector<Sum<T>> &plain, const std::vector<T> &result,
                     const std::vector<Real> &sizes) {
    const Verdict one = judge(reference, plain, result, sizes);
    if (!attune_fuzz::pool.active) {
        attune_fuzz::broke_error_rule = attune_fuzz::broke_error_rule || !one.right;
        return one;
    }
    if (!one.right && one.ratio == 0) return one;  // sizes, or elements that are not finite
    auto &all = attune_fuzz::pool.errors;
    if (all.size() <= attune_fuzz::pool.next) all.emplace_back();
    attune_fuzz::PooledErrors &e = all[attune_fuzz::pool.next++];
    e.unit = floor_of<T>();
    double largest = 0;
    for (std::size_t n = 0; n < result.size(); n++)
        if (std::isfinite(reference[n])) largest = std::max(largest, double(std::abs(sizes[n])));
    const double scale = largest > 0 ? 1 / largest : 1;
    for (std::size_t n = 0; n < result.size(); n++) {
        if (!std::isfinite(reference[n])) continue;
        // Powers of 2^-126 and their products, which are 0 in kernels, are lost without an error.
        const double error = std::max(double(std::abs(Real(result[n]) - reference[n])) - lost_to_underflow<T>(), 0.0);
        const double size = double(std::abs(sizes[n])), error_plain = double(std::abs(Real(plain[n]) - reference[n]));
        e.as_they_are.add(error, error_plain, size);
        e.of_largest.add(error * scale, error_plain * scale, size * scale);
    }
    return {true, "in a pool", 0};
}
template<typename Real, typename T>
Verdict pooled_judge(const std::vector<Real> &reference, const std::vector<Sum<T>> &plain, const std::vector<T> &result) {
    return pooled_judge(reference, plain, result, reference);
}

}  // namespace attune_test
#define judge pooled_judge  // in the headers of tests/support that follow

#define ATTUNE_FUZZ_JOIN2(a, b) a##b
#define ATTUNE_FUZZ_JOIN(a, b) ATTUNE_FUZZ_JOIN2(a, b)
#define INFO(...) \
    const attune_fuzz::Info ATTUNE_FUZZ_JOIN(info_, __LINE__)([&](std::ostream &attune_to) { attune_to << __VA_ARGS__; })
#define CHECK(...) attune_fuzz::check((__VA_ARGS__), #__VA_ARGS__)
#define REQUIRE(...) CHECK(__VA_ARGS__)
#define CHECK_FALSE(...) attune_fuzz::check(!(__VA_ARGS__), "not: " #__VA_ARGS__)
