// SPDX-License-Identifier: MIT
// The tuner's side of tune-worker: jobs for fresh processes, and the results of their ends.
#pragma once
#include "candidates.h"
#include "machine.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

struct Verdict {
    bool right = false;
    std::string reason;      // if wrong
    double error_ratio = 0;  // error over the rule's bound, the largest of all checks
    bool timed_out = false;  // the process ran longer than its limit
};

// Seconds of a call, of each candidate in each round. A process that failed has a failure and no seconds.
struct Times {
    std::vector<std::vector<double>> seconds;
    std::string failure;
    PeakLimit limit;               // where wanted and known
    double foreign_load = 0;       // CPU seconds of other processes per second
    std::vector<double> products;  // of each candidate, as a share of the machine's peak; 0 where not known
    bool timed_out = false;        // the process ran longer than its limit

    // For each round, the time of a candidate over that of the first one.
    std::vector<double> ratios(std::size_t candidate) const;
};

struct TimeJob {
    int rounds = 6;
    double sample_seconds = 0.01;
    bool cold = false;
    std::uint64_t seed = 1;
    double limit = 120;
    bool peak = false;  // measure the peak, too
};

class Workers {
public:
    // `self`: the program attune. `expected`: folder of the references of shapes.
    Workers(const Cell &, std::string self, std::string expected, int threads);

    // Checks a candidate at awkward calls, if asked for, and at the shapes.
    Verdict check(const Candidate &, const std::vector<bench::Shape> &, double limit, bool awkward = true) const;
    Times time(const std::vector<Candidate> &, const bench::Shape &, const TimeJob &) const;

private:
    nlohmann::json job(const char *mode, const std::vector<Candidate> &) const;

    const Cell &cell_;
    std::string self_, expected_;
    int threads_;
};

}  // namespace attune::tune
