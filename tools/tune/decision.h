// SPDX-License-Identifier: MIT
// Whether parameters are better than others, from times that were taken in turns. The unit is the process: identical code
// differs by a per cent or two from one process to the next (addresses, pages), which no number of rounds within one shows.
#pragma once
#include <cstddef>
#include <vector>

namespace attune::tune {

double median(std::vector<double>);  // 0 of none

// The geometric mean of ratios that have weights: of one candidate, over the shapes.
class MeanRatio {
public:
    void add(double ratio, double weight);
    double value() const;  // 1 of none

private:
    double logs_ = 0, weights_ = 0;
};

// Whether a time is a measurement, from what its products are of the most that the machine makes in a second: the candidate's
// and those of what it was timed in turns with, which is known to be right. More than all cannot be; then either the peak was
// measured too low, which says nothing of the candidate, or the candidate leaves out a part of the work.
enum class Measured { yes, too_quick, busy };
Measured measured(double products, double products_of_other, double foreign_load, double quiet);

// How many times as quick a candidate is as what it is compared with, and the 95 % interval of it; 1 is alike.
struct Gain {
    double value = 1, low = 0, high = 0;  // low 0: too few processes to say
    std::size_t processes = 0;
};

// ratios[process][round]: time of the candidate over that of the other, of a pair taken in turns. The gain is that of the mean
// of the processes' medians (of logarithms), its interval Student's t over processes.
Gain gain_of(const std::vector<std::vector<double>> &ratios);

// The rule by which parameters are replaced: the interval lies above a gain of 1 %.
inline constexpr double least_gain = 1.01;
inline bool replaces(const Gain &gain) { return gain.low > least_gain; }
// Whether more processes could still change the answer: the estimate is a gain, its interval reaches below.
inline bool undecided(const Gain &gain) { return !replaces(gain) && gain.value > least_gain && gain.high > least_gain; }

}  // namespace attune::tune
