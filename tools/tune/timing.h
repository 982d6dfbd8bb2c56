// How long candidates take, measured in turns.
#pragma once
#include "bench/cases/shapes.h"
#include <string>
#include <vector>

namespace attune::tune {

struct TimingJob {
    bench::Shape shape;
    int threads = 0;  // 0: all cores
    unsigned seed = 1;
    int rounds = 6;
    double sample_seconds = 0.01;  // of a sample at least
    // Operands change from call to call, through more of them than the last level of cache holds. Else they stay, and are read
    // once before each sample.
    bool cold = false;
};

struct Timings {
    std::vector<std::vector<double>> seconds;  // a call, of each round; a list a candidate
    std::vector<std::string> suspicious;       // a candidate that is faster than this machine can be; empty: it is not
    double foreign_load = 0;                   // CPU seconds of others per second
};

// Each round takes every variant once, in an order of its own; a sample of each has the same number of calls. Threads are the
// library's. Throws MachineError where a call fails.
Timings time_variants(const TimingJob &, const std::vector<std::string> &variants);

}  // namespace attune::tune
