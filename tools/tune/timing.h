// SPDX-License-Identifier: MIT
// How long candidates take, measured in turns.
#pragma once
#include "bench/cases/shapes.h"
#include "machine.h"
#include "user_case.h"
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct TimingJob {
    std::string op;  // of the variants
    bench::Shape shape;
    UserAttention user = {};
    int threads = 0;  // 0: all cores
    unsigned seed = 1;
    int rounds = 6;
    double sample_seconds = 0.01;  // of a sample at least
    // Operands change from call to call, through more of them than the last level of cache holds. Else they stay, and are read
    // once before each sample.
    bool cold = false;
    std::optional<std::string> peak_of = {};  // a schedule: what bounds its work is measured, too
};

struct Timings {
    std::vector<std::vector<double>> seconds;  // a call, of each round; a list a candidate
    std::vector<double> products;  // of a candidate, as a share of the most that this machine makes; none where it is not known
    PeakLimit limit;               // where it was asked for and is known
    double foreign_load = 0;       // CPU seconds of others per second, from the first round to the last peak
};

// Each round takes every variant once, in an order of its own, and the peak; a sample of each variant has the same number of
// calls. Threads are the library's. Throws MachineError where a call fails.
Timings time_variants(const TimingJob &, const std::vector<std::string> &variants);

}  // namespace attune::tune
