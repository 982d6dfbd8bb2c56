// SPDX-License-Identifier: MIT
// Search strategies. The same code drives a search on this machine and the replay of a recorded one.
#pragma once
#include "space.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

// Result of a candidate: its time over that of the starting parameters; empty if it was rejected.
using Outcome = std::optional<double>;

class Strategy {
public:
    virtual ~Strategy() = default;
    // Up to `at_most` candidates that were not proposed before, best guess first. Empty while the next ones depend on outcomes
    // that were not told yet; empty with no outcome missing when the strategy has ended.
    virtual std::vector<Parameters> propose(std::size_t at_most) = 0;
    // Takes the outcome of a candidate. Every proposed candidate is told, in any order; told again, after another measurement,
    // it has its last outcome. A candidate that was never proposed (a record of an earlier run) is then not proposed.
    virtual void tell(const Parameters &, const Outcome &) = 0;
    // The present phase, for the progress line: "stage 2 of 3", "descent from kv_block=64 ...".
    virtual std::string phase() const = 0;
};

// Makes a strategy. The search starts from the first seed. Seeds may lie outside of the space: their nearest points are taken.
//
//   factored    seeds, then stage by stage of the space around the best so far, then descent
//   descent     seeds, then all neighbours of the best three, until a full sweep gains less than 0.1 %; then all that is two
//               steps from the best, and on from there if it gains
//   random      seeds, then the others in random order
//   exhaustive  seeds, then the others in the order of the space
//
// Throws InputError for another name. The same seed and outcomes give the same proposals. The space outlives the strategy.
std::vector<std::string> strategy_names();
std::unique_ptr<Strategy> make_strategy(const std::string &name, const Space &, const std::vector<Parameters> &seeds,
                                        std::uint64_t seed);

}  // namespace attune::tune
