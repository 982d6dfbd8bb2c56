// SPDX-License-Identifier: MIT
// Replay of a search without the machine: candidates are answered from the records of a measured space.
#pragma once
#include <cstdint>
#include <string>

namespace attune::tune {

struct ReplayArguments {
    std::string records, schedules;  // file of records; folder of <op>/space.json and targets.json
    std::string strategy = "factored";
    std::uint64_t seed = 1;
    std::size_t budget = 200;   // candidates
    bool random_start = false;  // start at a recorded point that the seed chooses, not at the baseline
};

// One line of JSON for each key of the records:
//   {"key": {...}, "strategy", "seed", "start": "kv_block=64 ...", "recorded": 676, "rejected": 3, "missing": 0,
//    "best": {"parameters": "...", "ratio": 0.91}, "phases": ["seeds", ...], "regret": [1.3, 1.1, ...]}
// recorded: points that were timed; missing: candidates of the strategy without a record, answered as rejected and not counted;
// regret: after each candidate, the recorded median of the search's choice so far over that of the best of all records; null
// until one was timed.
std::string replay(const ReplayArguments &);

}  // namespace attune::tune
