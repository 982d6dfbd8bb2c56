// The parent's side of tune-worker: jobs for fresh processes, and what their ends mean.
#pragma once
#include "candidates.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

struct Verdict {
    bool right = false;
    std::string reason;      // where it is not
    double error_ratio = 0;  // error over what is allowed, the largest of all checks
};

// Seconds of a call, of each candidate in each round. A process that failed says why and has none.
struct Times {
    std::vector<std::vector<double>> seconds;
    std::string failure;
    double foreign_load = 0;  // CPU seconds of others per second
    bool suspicious = false;  // quicker than the machine is
};

struct TimeJob {
    int rounds = 6;
    double sample_seconds = 0.01;
    bool cold = false;
    std::uint64_t seed = 1;
    double limit = 120;
};

class Workers {
public:
    // `self`: the program attune. `expected`: a folder in which references of shapes are kept.
    Workers(const Cell &, std::string self, std::string expected, int threads);

    Verdict check(const Candidate &, const bench::Shape &, double limit) const;
    Times time(const std::vector<Candidate> &, const bench::Shape &, const TimeJob &) const;

private:
    nlohmann::json job(const char *mode, const std::vector<Candidate> &, const bench::Shape &) const;

    const Cell &cell_;
    std::string self_, expected_;
    int threads_;
};

}  // namespace attune::tune
