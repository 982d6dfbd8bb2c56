// How a space is searched. The same code drives a search on this machine and the replay of a recorded one.
#pragma once
#include "space.h"
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

// What measuring a candidate gave: its time over that of the numbers the search started from; nothing if it was rejected.
using Outcome = std::optional<double>;

class Strategy {
public:
    virtual ~Strategy() = default;
    // Up to `at_most` candidates that were not proposed before, best guess first; empty when the strategy has no more to ask.
    virtual std::vector<Numbers> propose(std::size_t at_most) = 0;
    // Every proposed candidate is told once, in any order, before the next proposal or after it.
    virtual void tell(const Numbers &, const Outcome &) = 0;
    // What it does now, for the progress line: "stage 2 of 3", "descent from chunk=64 ...".
    virtual std::string phase() const = 0;
};

// "factored": seeds, then stage by stage, then descent by one step from the best three until a full sweep gains less than 0.1 %.
// Others to compare with: "random", "descent" (from the seeds alone), "exhaustive". Throws InputError for another name.
std::vector<std::string> strategy_names();
std::unique_ptr<Strategy> make_strategy(const std::string &name, const Space &, const std::vector<Numbers> &seeds, std::uint64_t seed);

}  // namespace attune::tune
