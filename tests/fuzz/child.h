// SPDX-License-Identifier: MIT
// Cases in a child process, so that a crash or an endless loop is a failure as any other, and shrinking goes on after it.
#pragma once
#include "tests/fuzz/draw.h"
#include <functional>
#include <string>
#include <vector>

namespace attune_fuzz {

struct Made {
    std::string name, value;
    bool is_number;
    std::int64_t lowest;
};
using Run = std::function<void(Draw &)>;  // throws where the case fails

struct Outcome {
    bool failed = false;
    std::string why = {};         // what failed, or the signal
    std::vector<Made> made = {};  // choices of the failed case
    std::uint64_t at = 0;         // number of the failed case, or else that behind the last one
};

// Runs cases of numbers [first, end), each of the seed that `seed_of` makes of its number, until one fails.
Outcome run_cases(const Run &, std::uint64_t first, std::uint64_t end,
                  const std::function<std::uint64_t(std::uint64_t)> &seed_of);
// Runs the case of these values.
Outcome run_values(const Run &, const Values &);

// The simplest case found that fails, by at most `most` runs: each value in turn becomes its simplest, and each number smaller,
// while the case still fails.
struct Shrunk {
    Values values;
    std::string why;
    int runs = 0;
};
Shrunk shrink(const Run &, const Outcome &failed, int most = 300);

}  // namespace attune_fuzz
