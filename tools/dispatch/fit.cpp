// SPDX-License-Identifier: MIT
#include "fit.h"
#include "tools/tune/decision.h"
#include <algorithm>
#include <cmath>

namespace attune::dispatch {
namespace {

constexpr std::size_t size = std::tuple_size_v<Terms>;

double error_of(const Terms &x, const Sample &s) { return std::abs(predicted(x, s.terms) / s.ns - 1); }

}  // namespace

Terms least_squares_of_positive(const Square &a, const Terms &b) {
    constexpr int most_sweeps = 20000;
    constexpr double settled = 1e-12;
    Terms x{};
    for (int sweep = 0; sweep < most_sweeps; sweep++) {
        double moved = 0, largest = 0;
        for (std::size_t i = 0; i < size; i++) {
            if (a[i][i] <= 0) continue;
            double gradient = b[i];
            for (std::size_t j = 0; j < size; j++) gradient -= a[i][j] * x[j];
            const double next = std::max(0.0, x[i] + gradient / a[i][i]), scale = std::sqrt(a[i][i]);
            moved = std::max(moved, std::abs(next - x[i]) * scale), largest = std::max(largest, next * scale);
            x[i] = next;
        }
        if (moved <= settled * largest) break;
    }
    return x;
}

namespace {

// Weighted least squares over the terms that `used` names, the weights renewed by the residuals.
Terms coefficients_of(const std::vector<Sample> &samples, const std::array<bool, size> &used) {
    constexpr int rounds = 8;
    constexpr double small_error = 0.02, far_from_best = 0.1;
    Terms x{};
    for (int round = 0; round < rounds; round++) {
        Square a{};
        Terms b{};
        for (const Sample &s : samples) {
            const double near = std::clamp(s.least / s.ns, far_from_best, 1.0);
            double weight = near * near / s.ns;
            if (round > 0) weight /= std::sqrt(std::max(error_of(x, s), small_error));
            for (std::size_t i = 0; i < size; i++) {
                if (!used[i]) continue;
                b[i] += weight * s.terms[i] * weight * s.ns;
                for (std::size_t j = 0; j < size; j++)
                    if (used[j]) a[i][j] += weight * s.terms[i] * weight * s.terms[j];
            }
        }
        x = least_squares_of_positive(a, b);
    }
    return x;
}

// The largest share that each term has of a predicted time.
Terms shares_of(const Terms &x, const std::vector<Sample> &samples) {
    Terms most{};
    for (const Sample &s : samples)
        for (std::size_t i = 0; i < size; i++) most[i] = std::max(most[i], x[i] * s.terms[i] / s.ns);
    return most;
}

}  // namespace

detail::CostCoefficients fit(const std::vector<Sample> &samples) {
    constexpr std::size_t most_coefficients = 6;
    constexpr double negligible = 1e-6;
    std::array<bool, size> used;
    used.fill(true);
    Terms x{};
    while (true) {
        x = coefficients_of(samples, used);
        const Terms shares = shares_of(x, samples);
        // A term that another one stands for (scores and scores * width, at one head size) is left with a trace.
        for (std::size_t i = 0; i < size; i++)
            if (shares[i] < negligible) x[i] = 0, used[i] = false;
        if (std::count(used.begin(), used.end(), true) <= static_cast<std::ptrdiff_t>(most_coefficients)) break;
        used[static_cast<std::size_t>(std::min_element(shares.begin(), shares.end()) - shares.begin())] = false;
    }
    detail::CostCoefficients cost{};
    std::transform(x.begin(), x.end(), cost.begin(), [](double c) { return static_cast<float>(c); });
    return cost;
}

double error_of(const detail::CostCoefficients &cost, const std::vector<Sample> &samples) {
    std::vector<double> errors;
    for (const Sample &s : samples) errors.push_back(std::abs(predicted(cost, s.terms) / s.ns - 1));
    return tune::median(errors);
}

}  // namespace attune::dispatch
