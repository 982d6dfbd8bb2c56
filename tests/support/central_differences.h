// SPDX-License-Identifier: MIT
// Derivatives by central differences, to compare gradients with.
#pragma once
#include "tests/support/catch.h"
#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace attune_test {

// Derivative of loss() by x from five points, with an error of about 1e-14 times the fifth derivative and a rounding error of
// 1e-12 of the loss. A float must hold x plus each step exactly: a multiple of 2^-12 that is not large.
template<typename T> double central_difference(T &x, const std::function<double()> &loss) {
    constexpr double step = 1.0 / 4096;
    const T at = x;
    const auto moved = [&](double by) {
        x = T(double(at) + by);
        return loss();
    };
    const double near = moved(step) - moved(-step), far = moved(2 * step) - moved(-2 * step);
    x = at;
    return (8 * near - far) / (12 * step);
}

// One input of a function, with gradient and difference of each element.
struct DifferencedInput {
    std::string name;
    std::size_t count = 0;
    std::function<double(std::size_t)> gradient;    // as the library computed it
    std::function<double(std::size_t)> difference;  // central difference
};
template<typename Array, typename Gradient>
DifferencedInput differenced(const std::string &name, Array &array, const std::vector<Gradient> &gradient,
                             const std::function<double()> &loss) {
    using T = std::decay_t<decltype(*array.data())>;
    std::vector<T *> places;
    array.each([&](T &x) { places.push_back(&x); });
    REQUIRE(places.size() == gradient.size());
    return {name, places.size(), [gradient](std::size_t n) { return double(gradient[n]); },
            [places, loss](std::size_t n) { return std::isfinite(*places[n]) ? central_difference(*places[n], loss) : 0.0; }};
}

// Fault of a gradient; empty if it agrees within 1e-6 of each element, where no element counts as less than a thousandth of the
// largest, nor as less than 1e-4: the accuracy of differences of a loss of a hundred at a gradient of 0. `most`: number of
// elements, chosen at random.
inline std::string difference_defect(const DifferencedInput &input, std::size_t most, std::mt19937 &random) {
    double largest = 0;
    std::vector<std::size_t> all(input.count);
    for (std::size_t n = 0; n < input.count; n++) all[n] = n, largest = std::max(largest, std::abs(input.gradient(n)));
    if (most < all.size()) std::shuffle(all.begin(), all.end(), random), all.resize(most);
    for (std::size_t n : all) {
        const double difference = input.difference(n), gradient = input.gradient(n);
        const double size = std::max({std::abs(difference), largest / 1000, 1e-4});
        if (std::abs(gradient - difference) <= 1e-6 * size) continue;
        std::ostringstream why;
        why.precision(12);
        why << input.name << ": element " << n << " of " << input.count << " is " << gradient << ", the difference says "
            << difference << "; the largest " << largest;
        return why.str();
    }
    return {};
}

// Loss of a backward pass's arrays: the sum of all out and lse times random numbers, without the lse of rows without keys.
template<typename Arrays> double loss_of(Arrays &a, const std::vector<double> &out, const std::vector<double> &lse) {
    long double loss = 0;
    std::size_t n = 0;
    a.grad_out.each([&](double &x) { loss += static_cast<long double>(x) * out[n++]; });
    n = 0;
    if (a.the.grad_lse)
        a.grad_lse.each([&](double &x) {
            if (std::isfinite(lse[n])) loss += static_cast<long double>(x) * lse[n];
            n++;
        });
    return double(loss);
}

}  // namespace attune_test
