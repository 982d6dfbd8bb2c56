// The search for the numbers of one variant: candidates are compiled side by side, then checked and timed one by one, alone.
#pragma once
#include "candidates.h"
#include "decision.h"
#include "records.h"
#include "strategy.h"
#include "workers.h"
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct Limits {
    int jobs = 1;                 // compilers at once
    double compile_seconds = 60;  // of one candidate
    double check_seconds = 60;
    int rounds = 5;  // pairs with the baseline in a first measurement
    double sample_seconds = 0.01;
    std::size_t finalists = 5;
    int processes = 6, most_processes = 12;  // of the decision; more while it is open
    int rounds_of_process = 6;
    bool cold = false;
    double quiet = 0.05;  // foreign CPU seconds per second beyond which a measurement is taken again
};

// One candidate, as it was tried; for the picture and the report.
struct Trial {
    Numbers numbers;
    std::string verdict, reason;
    double gain = 0;  // speed over the baseline's by the first measurement
    double seconds = 0;
    double error_ratio = 0;
    bool known = false;  // from a record of an earlier run

    bool was_right() const { return verdict == "timed" || verdict == "same code"; }
};

struct Finalist {
    Numbers numbers;
    Gain gain;  // over the baseline
    double error_ratio = 0;
};

struct CellResult {
    Numbers baseline, chosen;  // the same where nothing replaces them
    std::optional<Gain> gain;  // of what was chosen
    std::vector<Finalist> finalists;
    std::vector<Trial> trials;
    std::vector<std::string> inert;                   // knobs that never changed the code
    double baseline_seconds = 0, chosen_seconds = 0;  // of a call on the first shape, the best
    double loudest = 0;                               // foreign load of the loudest measurement that counts
    bool complete = false;                            // the strategy had nothing more to ask
    std::string failure;                              // no candidate was right, or the baseline is not
};

// What the search needs; all of it outlives the tuner.
struct Setting {
    const Cell &cell;
    const Space &space;
    const CandidateMaker &maker;
    const Workers &workers;
    RecordKey key;                     // but for the shape
    const std::vector<Record> &known;  // of earlier runs
    RecordLog &log;
    std::string strategy;
    std::vector<Numbers> seeds;
    std::uint64_t seed = 1;
    Limits limits;
    // Told of each trial and of each process of the decision, for the progress line.
    std::function<void(const CellResult &, const std::string &phase)> progress;
};

using Deadline = std::chrono::steady_clock::time_point;

// Searches until the deadline less what the decision takes, then decides.
CellResult tune_cell(const Setting &, const Numbers &baseline, Deadline);

// The decision alone, between a baseline and others that are all right: what tune_cell() ends with.
std::vector<Finalist> decide(const Setting &, const Candidate &baseline, const std::vector<Candidate> &others, Deadline,
                             CellResult &);
// Which finalist replaces the baseline: of those whose interval lies above the least gain the quickest; among those within 1 %
// of it the one of the least error.
const Finalist *winner(const std::vector<Finalist> &);

}  // namespace attune::tune
