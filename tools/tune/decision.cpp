// SPDX-License-Identifier: MIT
#include "decision.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace attune::tune {
namespace {

// Quantile of Student's t, two-sided 95 %, by degrees of freedom from 1.
double t_of(std::size_t freedom) {
    static constexpr std::array table = {12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
                                         2.201,  2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086};
    return freedom <= table.size() ? table[freedom - 1] : 2.086;  // for 20; smaller for more
}

}  // namespace

double median(std::vector<double> x) {
    if (x.empty()) return 0;
    const std::size_t half = x.size() / 2;
    std::nth_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(half), x.end());
    if (x.size() % 2) return x[half];
    return (x[half] + *std::max_element(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(half))) / 2;
}

void MeanRatio::add(double ratio, double weight) { logs_ += weight * std::log(ratio), weights_ += weight; }

double MeanRatio::value() const { return weights_ > 0 ? std::exp(logs_ / weights_) : 1; }

Measured measured(double products, double products_of_other, double foreign_load, double quiet) {
    if (products <= 1) return Measured::yes;
    return foreign_load > quiet || products_of_other > 1 ? Measured::busy : Measured::too_quick;
}

Gain gain_of(const std::vector<std::vector<double>> &ratios) {
    std::vector<double> logs;
    for (const std::vector<double> &process : ratios) {
        std::vector<double> of_process;
        for (double r : process) of_process.push_back(std::log(r));
        if (!of_process.empty()) logs.push_back(median(of_process));
    }
    Gain gain;
    gain.processes = logs.size();
    if (logs.empty()) return gain;
    const double n = static_cast<double>(logs.size());
    double mean = 0, squares = 0;
    for (double x : logs) mean += x / n;
    for (double x : logs) squares += (x - mean) * (x - mean);
    gain.value = std::exp(-mean);
    if (logs.size() < 3) return gain;
    const double half_width = t_of(logs.size() - 1) * std::sqrt(squares / (n - 1) / n);
    gain.low = std::exp(-mean - half_width), gain.high = std::exp(-mean + half_width);
    return gain;
}

}  // namespace attune::tune
