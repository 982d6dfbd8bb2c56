// SPDX-License-Identifier: MIT
// Times of candidates, measured in turns.
#pragma once
#include "bench/cases/shapes.h"
#include "machine.h"
#include "user_case.h"
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct TimingJob {
    std::string op;  // op of the variants
    bench::Shape shape;
    UserAttention user = {};
    int threads = 0;  // 0: all cores
    unsigned seed = 1;
    int rounds = 6;
    double sample_seconds = 0.01;  // least time of a sample
    // Cold caches: operands change from call to call, through more sets than the last level of cache holds. Otherwise they
    // stay, and are read once before each sample.
    bool cold = false;
    std::optional<std::string> peak_of = {};  // a schedule: the peak for its work is measured, too
};

struct Timings {
    std::vector<std::vector<double>> seconds;  // [candidate][round]: seconds of a call
    std::vector<double> products;              // per candidate, as a share of the machine's peak; none where not known
    PeakLimit limit;                           // where wanted and known
    double foreign_load = 0;  // CPU seconds of other processes per second, from the first round to the last peak
};

// Times variants. Each round takes every variant once, in a random order, and the peak; a sample of each variant has the same
// number of calls. Threads are the library's. Throws MachineError where a call fails.
Timings time_variants(const TimingJob &, const std::vector<std::string> &variants);

}  // namespace attune::tune
