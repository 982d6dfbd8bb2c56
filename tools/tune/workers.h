// SPDX-License-Identifier: MIT
// The parent's side of tune-worker: jobs for fresh processes, and what their ends mean.
#pragma once
#include "candidates.h"
#include "machine.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

struct Verdict {
    bool right = false;
    std::string reason;      // where it is not
    double error_ratio = 0;  // error over what is allowed, the largest of all checks
    bool timed_out = false;  // the process ran longer than its limit
};

// Seconds of a call, of each candidate in each round. A process that failed says why and has none.
struct Times {
    std::vector<std::vector<double>> seconds;
    std::string failure;
    PeakLimit limit;               // where it was asked for and is known
    double foreign_load = 0;       // CPU seconds of others per second
    std::vector<double> products;  // of each candidate, as a share of the most that the machine makes; 0 where it is not known
    bool timed_out = false;        // the process ran longer than its limit

    // Of each round, the time of a candidate over that of the first.
    std::vector<double> ratios(std::size_t candidate) const;
};

struct TimeJob {
    int rounds = 6;
    double sample_seconds = 0.01;
    bool cold = false;
    std::uint64_t seed = 1;
    double limit = 120;
    bool peak = false;  // measured, too
};

class Workers {
public:
    // `self`: the program attune. `expected`: a folder in which references of shapes are kept.
    Workers(const Cell &, std::string self, std::string expected, int threads);

    // At awkward calls, if asked for, and at the shapes.
    Verdict check(const Candidate &, const std::vector<bench::Shape> &, double limit, bool awkward = true) const;
    Times time(const std::vector<Candidate> &, const bench::Shape &, const TimeJob &) const;

private:
    nlohmann::json job(const char *mode, const std::vector<Candidate> &) const;

    const Cell &cell_;
    std::string self_, expected_;
    int threads_;
};

}  // namespace attune::tune
