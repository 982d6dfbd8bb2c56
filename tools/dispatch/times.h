// SPDX-License-Identifier: MIT
// Times of all variants of a shape, taken in turns, and a log of them that a stopped run goes on from.
#pragma once
#include "bench/cases/shapes.h"
#include "timed_call.h"
#include "tools/tune/records.h"
#include <map>
#include <string>
#include <vector>

namespace attune::dispatch {

struct ShapeTimes {
    bench::Shape shape;
    std::map<std::string, double> seconds;  // of a call, by variant; "": the one that dispatch chose
    double foreign_load = 0;                // CPU seconds of other processes per second, while these were measured
    double least() const;                   // of the variants
};

struct Sampling {
    double seconds = 0.0007;  // of a sample, at least
    int rounds = 4;
    unsigned seed = 1;
};

// The best of the rounds, in each of which every variant is sampled once, in a random order; variants that take several times
// as long as the quickest one are sampled twice. The first name may be "", for dispatch. Throws MachineError where a call
// fails.
ShapeTimes time_variants(TimedMachine &, const bench::Shape &, const std::vector<std::string> &variants, const Sampling &);
// The same again while other processes load the machine, a few times; the quietest counts.
ShapeTimes quiet_times(TimedMachine &, const bench::Shape &, const std::vector<std::string> &variants, const Sampling &);
// Above this load times are not used.
inline constexpr double quiet_load = 0.05;

// Measured shapes as JSON lines, each for one machine, build and number of threads: `key`.
class TimesLog {
public:
    TimesLog(const std::string &file, std::string key);
    // The times of a shape that an earlier run measured; null if none did.
    const ShapeTimes *find(const bench::Shape &) const;
    void append(const ShapeTimes &);

private:
    tune::RecordLog log_;
    std::string key_;
    std::map<std::string, ShapeTimes> known_;
};

}  // namespace attune::dispatch
