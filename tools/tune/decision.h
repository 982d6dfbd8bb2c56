// SPDX-License-Identifier: MIT
// Decisions between parameters, from times taken in turns. The unit is the process: identical code differs by a per cent or two
// from process to process (addresses, pages), which no number of rounds within one shows.
#pragma once
#include <cstddef>
#include <vector>

namespace attune::tune {

double median(std::vector<double>);  // 0 without elements

// Weighted geometric mean of the ratios of one candidate over the shapes.
class MeanRatio {
public:
    void add(double ratio, double weight);
    double value() const;  // 1 without ratios

private:
    double logs_ = 0, weights_ = 0;
};

// Plausibility of a time, from the share of the machine's peak that its products are: the candidate's share, and that of the
// kernel timed in turns with it, which is known to be right. A share above 1 is impossible; then either the peak was measured
// too low, which says nothing about the candidate, or the candidate skips a part of the work.
enum class Measured { yes, too_quick, busy };
Measured measured(double products, double products_of_other, double foreign_load, double quiet);

// Speed of a candidate relative to another, with its 95 % interval; 1 is equal.
struct Gain {
    double value = 1, low = 0, high = 0;  // low 0: too few processes for an interval
    std::size_t processes = 0;
};

// ratios[process][round]: time of the candidate over that of the other, in a pair taken in turns. The gain is that of the mean
// of the processes' medians (of logarithms), its interval Student's t over processes.
Gain gain_of(const std::vector<std::vector<double>> &ratios);

// Rule of replacement: the interval lies above a gain of 1 %.
inline constexpr double least_gain = 1.01;
inline bool replaces(const Gain &gain) { return gain.low > least_gain; }
// Whether more processes could change the answer: the estimate is a gain, and its interval reaches below 1 %.
inline bool undecided(const Gain &gain) { return !replaces(gain) && gain.value > least_gain && gain.high > least_gain; }

}  // namespace attune::tune
