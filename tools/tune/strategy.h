// SPDX-License-Identifier: MIT
// How a space is searched. The same code drives a search on this machine and the replay of a recorded one.
#pragma once
#include "space.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

// What measuring a candidate gave: its time over that of the parameters the search started from; nothing if it was rejected.
using Outcome = std::optional<double>;

class Strategy {
public:
    virtual ~Strategy() = default;
    // Up to `at_most` candidates that were not proposed before, best guess first. Empty while what comes next depends on
    // outcomes that were not told yet; empty with none of them owing when the strategy has no more to ask.
    virtual std::vector<Parameters> propose(std::size_t at_most) = 0;
    // Every proposed candidate is told, in any order. Told again, after it was measured again, it has its last outcome; what
    // was never proposed (a record of an earlier run) may be told too, and is then not proposed.
    virtual void tell(const Parameters &, const Outcome &) = 0;
    // What it does now, for the progress line: "stage 2 of 3", "descent from kv_block=64 ...".
    virtual std::string phase() const = 0;
};

// The first of the seeds is what the search starts from. They may lie outside of the space: then their nearest points are
// meant.
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
