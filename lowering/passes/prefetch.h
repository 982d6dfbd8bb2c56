// SPDX-License-Identifier: MIT
// Software prefetch.
//
// Halide 21 has a directive that prefetches the region of a later round of a loop (halide/Halide#1527, #6155). It emits
// prefetchnta, which some processors take past L2; steps through a row in elements while it counts in bytes; and knows neither
// a loop inside the one that is ahead, nor lines spread over the rounds of another. The directives below state which loads are
// prefetched, for when, and where:
//
//     for (k) sum += a[k]                          ->  for (k) { prefetcht0(&a[k + 16 * rounds]); sum += a[k] }
//
// They refuse an input that the loop named does not read.
#pragma once
#include "lowering/lowered_loop.h"
#include <variant>
#include <vector>

namespace attune {

constexpr int cache_line_bytes = 64;

// Halide's directive: each round of a loop of `stage` fetches the region that the round `rounds` later reads; none for 0.
struct PrefetchRegion {
    Halide::Stage stage;
    Halide::VarOrRVar loop;
    Halide::Expr rounds;
    bool non_temporal = false;  // prefetchnta, as Halide has it, and not into all caches
};

// Each round of `inner` fetches, into all caches, what it will read of the input when `outer`, that loop or one around it, is
// `rounds` further; none for 0. Spread so over the sums of a register tile, lines come while it is computed; all those of the
// next tile at its begin would be waited for.
struct PrefetchLines {
    LoweredLoop inner, outer;
    int rounds;
};

// Runs of lines: each is what one load of a loop reads in all its rounds. What `reads` will read is fetched for the next time
// that it begins: when the first of the loops `around` it that is not at its end goes on, or else the last. Evenly over the
// rounds of `spread`, and run by run: memory gives neighbours sooner than lines of many rows in turn, and where rows share sets
// of a cache they do not push each other out.
struct PrefetchRuns {
    LoweredLoop reads;
    int lines;                        // of a run, at most
    std::vector<LoweredLoop> around;  // loops around `reads`, innermost first
    struct Spread {
        LoweredLoop loop;
        int rounds;             // of those that it may have
        bool over_all = false;  // however many it has; `rounds` are the fewest then
    };
    std::vector<Spread> spread;  // loops inside the first of `around`, outermost first
    // Not defined: for the next time that `reads` begins. Else it is for this time, where this holds: `spread` is before
    // `reads`.
    Halide::Expr this_time = {};
};

// Rows of lines, of which some loops read a line a round for each of their loads. What `reads` will read is fetched for the
// next time, as by PrefetchRuns, but row after row: each round fetches as many lines as it reads, one beside each of its loads.
struct PrefetchRows {
    std::vector<LoweredLoop> reads;   // that begin a row first
    Halide::Expr lines;               // of a row
    std::vector<LoweredLoop> around;  // loops around `reads`, innermost first
};

struct Prefetch {
    Halide::ImageParam input;
    std::variant<PrefetchRegion, PrefetchLines, PrefetchRuns, PrefetchRows> what;
};
// Regions become directives of Halide's; the others, and what Halide makes of regions, are passes.
void add_prefetches(Halide::Pipeline, const std::vector<Prefetch> &);

}  // namespace attune
