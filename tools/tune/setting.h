// SPDX-License-Identifier: MIT
// Input and result of the search for the parameters of one variant.
#pragma once
#include "builders.h"
#include "candidates.h"
#include "decision.h"
#include "machine.h"
#include "records.h"
#include "space.h"
#include "workers.h"
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct Limits {
    int jobs = 1;                 // compilers at once
    double compile_seconds = 60;  // per candidate
    double check_seconds = 60;
    int rounds = 5;  // pairs with the baseline in a first measurement
    double sample_seconds = 0.01;
    std::size_t finalists = 5;
    int processes = 6, most_processes = 12;  // of the decision; more while it is undecided
    int rounds_of_process = 6;
    int decisions = 1;  // after the search; 2 where it did not begin at the parameters in use
    bool cold = false;
    double quiet = 0.05;  // CPU seconds of other processes per second above which a measurement is repeated
};

// A tried candidate, for the picture and the report. Its verdict is that of a record, "same code" as another's, or "not
// measured", which is not recorded: a further run tries it again.
struct Trial {
    Parameters parameters;
    std::string verdict, reason;
    double gain = 0;  // speed over the baseline's by the first measurement
    double seconds = 0;
    double error_ratio = 0;
    bool known = false;  // from a record of an earlier run

    bool was_right() const { return verdict == "timed" || verdict == "same code"; }
};

struct Finalist {
    Parameters parameters;
    Gain gain;  // over the baseline
    double error_ratio = 0;
};

struct CellResult {
    Parameters baseline, chosen;  // the same where nothing replaces them
    std::optional<Gain> gain;     // of the chosen parameters
    std::vector<Finalist> finalists;
    std::vector<Trial> trials;
    std::vector<WeightedShape> shapes;                // on which candidates were timed
    std::string shapes_left_out;                      // shapes left out for want of time, in words
    std::vector<std::string> inert;                   // parameters that never changed the code
    double baseline_seconds = 0, chosen_seconds = 0;  // best time of a call on the first shape
    PeakLimit limit;                                  // of the first shape, measured in turns with the baseline
    double loudest = 0;                               // largest foreign load of a measurement that counts
    bool complete = false;                            // the strategy had nothing more to ask
    std::string not_tried;                            // why nothing was tried or decided
    std::string failure;                              // no candidate is right, or the baseline is wrong
};

// Input of the search; all members outlive the tuner.
struct Setting {
    const Cell &cell;
    std::vector<WeightedShape> shapes;  // shapes of the cell that are timed
    const Space &space;
    const CandidateMaker &maker;
    Builders *builders = nullptr;  // other ranks that build candidates; null: none
    const Workers &workers;
    RecordKey key;                     // without the shape
    std::string captures;              // for a user's attention a hash of its captures; else empty
    const std::vector<Record> &known;  // of earlier runs
    RecordLog &log;
    std::string strategy;
    std::vector<Parameters> seeds;
    std::uint64_t seed = 1;
    Limits limits;
    // Called for each trial and for each process of the decision, for the progress line.
    std::function<void(const CellResult &, const std::string &phase)> progress;
};

using Deadline = std::chrono::steady_clock::time_point;
inline double seconds_left(Deadline deadline) {
    return std::chrono::duration<double>(deadline - std::chrono::steady_clock::now()).count();
}
inline Deadline earlier(Deadline deadline, double seconds) {
    return deadline - std::chrono::duration_cast<Deadline::duration>(std::chrono::duration<double>(seconds));
}
// Limit of a step that may take `at_most` seconds, and no longer than until the deadline.
inline double seconds_until(Deadline deadline, double at_most) { return std::clamp(seconds_left(deadline), 1.0, at_most); }

}  // namespace attune::tune
