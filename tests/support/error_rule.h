// SPDX-License-Identifier: MIT
// The error rule: the one definition of a right result. No other test compares floating-point results with a tolerance.
#pragma once
#include "tests/support/half_elements.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

namespace attune_test {

// Rule: the error against the reference, in the maximum and in the mean, is at most twice that of the plain computation in the
// same type, plus a floor for cases where the plain computation is exact or lucky (one key, equal keys, a sum of two). There a
// weight still has about one rounding each from scale times log2(e), 2^x, the KV block's scale, the product with the value, and
// the quotient. Four units of the largest (for the mean: of the mean) reference value cover these: epsilon is two half-units,
// so each rounding may cost all of its half-unit.
inline constexpr double rounding_floor = 4;
// For 16-bit types one unit: only the weight and the result are rounded, all else is computed in f32.
template<typename T> constexpr double floor_of() {
    return (is_half<T> ? 1 : rounding_floor) * double(std::numeric_limits<T>::epsilon());
}

struct Verdict {
    bool right = false;
    std::string why;   // figures for the message of a failed test
    double ratio = 0;  // error over the bound, in the maximum or in the mean
};

// Judges a result. Elements that are NaN or infinite in the reference must be the same in the result, and are left out of the
// norms. The floor is in units of `sizes`: the reference, or, where it is a difference of larger terms, those terms.
template<typename Real, typename T>
Verdict judge(const std::vector<Real> &reference, const std::vector<Sum<T>> &plain, const std::vector<T> &result,
              const std::vector<Real> &sizes) {
    std::ostringstream why;
    if (reference.size() != result.size() || plain.size() != result.size() || sizes.size() != result.size())
        return {false, "sizes differ"};
    double most = 0, most_plain = 0, sum = 0, sum_plain = 0, largest = 0, magnitude = 0;
    std::size_t counted = 0, worst = 0;
    for (std::size_t n = 0; n < result.size(); n++) {
        if (!std::isfinite(reference[n])) {
            const bool same = std::isnan(reference[n]) ? std::isnan(result[n]) : Real(result[n]) == reference[n];
            if (same) continue;
            why << "element " << n << " is " << result[n] << ", the reference " << reference[n];
            return {false, why.str()};
        }
        if (!std::isfinite(result[n]) || !std::isfinite(plain[n])) {
            why << "element " << n << " is " << result[n] << ", plain " << plain[n] << ", the reference " << reference[n];
            return {false, why.str()};
        }
        const double error = double(std::abs(Real(result[n]) - reference[n]));
        const double error_plain = double(std::abs(Real(plain[n]) - reference[n]));
        if (error > most) worst = n;
        most = std::max(most, error), most_plain = std::max(most_plain, error_plain);
        sum += error, sum_plain += error_plain;
        largest = std::max(largest, double(std::abs(sizes[n]))), magnitude += double(std::abs(sizes[n]));
        counted++;
    }
    if (counted == 0) return {true, "nothing finite"};
    const double unit = floor_of<T>();
    const double mean = sum / counted, mean_plain = sum_plain / counted, mean_size = magnitude / counted;
    why << "maximum error " << most << " (element " << worst << "), plain " << most_plain << ", floor " << unit * largest
        << "; mean error " << mean << ", plain " << mean_plain << ", floor " << unit * mean_size;
    const double allowed = 2 * most_plain + unit * largest, mean_allowed = 2 * mean_plain + unit * mean_size;
    const auto share = [](double of, double all) { return of == 0 ? 0 : of / all; };
    return {most <= allowed && mean <= mean_allowed, why.str(), std::max(share(most, allowed), share(mean, mean_allowed))};
}

template<typename Real, typename T>
Verdict judge(const std::vector<Real> &reference, const std::vector<Sum<T>> &plain, const std::vector<T> &result) {
    return judge(reference, plain, result, reference);
}

// Numbers from which on a result that is 0 was not computed: a power of 2^-126 (2^-1022 in double) is 0 in a kernel, and so are
// its products with other numbers.
template<typename T> constexpr double least_counted() {
    return std::is_same_v<T, double> ? 0x1p-1002 : std::is_same_v<T, Float16> ? 0x1p-14 : 0x1p-106;
}

// Absolute error of powers that are 0 in a kernel, times values below 16: 2^-122, in double 2^-1018. Results of 16-bit types
// are rounded far above it.
template<typename T> constexpr double lost_to_underflow() { return is_half<T> ? 0 : 0x1p-16 * least_counted<T>(); }

// Whether a result is mostly zeros where the reference is not: then it was not computed, however small the reference is.
template<typename Real, typename T> bool suspiciously_empty(const std::vector<Real> &reference, const std::vector<T> &result) {
    std::size_t expected = 0, zeros = 0;
    for (std::size_t n = 0; n < result.size() && n < reference.size(); n++)
        if (std::abs(reference[n]) >= Real(least_counted<T>())) expected++, zeros += result[n] == 0;
    return 2 * zeros > expected;
}

// The reference for suspiciously_empty(), with 0 in place of elements that may be 0 in a result: differences of equal numbers,
// small beside the sizes of their terms, and elements that the plain computation does not know by half of their size, as
// 1 - tanh(x)^2, or a sum of weights whose scores are rounded to multiples of 64 beside -1e9.
template<typename Real, typename Plain>
std::vector<Real> clear_elements(std::vector<Real> reference, const std::vector<Plain> &plain, const std::vector<Real> &sizes) {
    double largest = 0;
    for (const Real &size : sizes) largest = std::max(largest, double(std::abs(size)));
    for (std::size_t n = 0; n < reference.size(); n++)
        if (!(std::abs(reference[n]) > 1e-3 * largest) || std::abs(plain[n] - reference[n]) > std::abs(reference[n]) / 2)
            reference[n] = 0;
    return reference;
}

}  // namespace attune_test
