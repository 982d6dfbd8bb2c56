// SPDX-License-Identifier: MIT
// Software prefetch.
//
// Halide 21 has a directive that prefetches the region of a later round of a loop (halide/Halide#1527, #6155). It emits
// prefetchnta, which some processors take past L2; steps through a row in elements while it counts in bytes; and supports
// neither a loop inside the one that is ahead, nor lines spread over the rounds of another. The directives below state which
// loads are prefetched, how far ahead, and in which loop:
//
//     for (k) sum += a[k]                          ->  for (k) { prefetcht0(&a[k + 16 * rounds]); sum += a[k] }
//
// Refused: an input that the named loop does not read, an output that it does not store.
#pragma once
#include "lowering/lowered_loop.h"
#include <variant>
#include <vector>

namespace attune {

constexpr int cache_line_bytes = 64;

// Halide's directive: each round of a loop of `stage` fetches the region that the loop reads `rounds` later; 0: no prefetch.
struct PrefetchRegion {
    Halide::Stage stage;
    Halide::VarOrRVar loop;
    Halide::Expr rounds;
    bool non_temporal = false;  // prefetchnta, as in Halide, and not into all caches
};

// Each round of `inner` fetches, into all caches, its reads of the input, those of loops inside it too, when `outer`, that loop
// or one around it, is `rounds` further; 0: no prefetch. Spread over the sums of a register tile, lines arrive while it is
// computed; if all lines of the next tile were fetched at its begin, it would wait for them.
struct PrefetchLines {
    LoweredLoop inner, outer;
    int rounds;
};

// Runs of lines, a run being the reads of one load of a loop in all its rounds. The next reads of `reads` are fetched, that is
// its reads after the first of the loops `around` that is not at its end goes on, or else the last. Lines are spread evenly
// over the rounds of `spread`, run by run: memory delivers neighbours sooner than lines of many rows in turn, and lines of rows
// that share sets of a cache do not evict each other.
struct PrefetchRuns {
    LoweredLoop reads;
    int lines;                        // of a run, at most
    std::vector<LoweredLoop> around;  // loops around `reads`, innermost first
    struct Spread {
        LoweredLoop loop;
        int rounds;             // maximal number of rounds
        bool over_all = false;  // over all rounds, of any number; `rounds` is then the minimum
    };
    std::vector<Spread> spread;  // loops inside the first of `around`, outermost first
    // Not defined: fetch for the next time that `reads` begins. Else fetch for this time, where the condition holds: `spread`
    // is before `reads`.
    Halide::Expr this_time = {};
};

// Rows of lines, of which some loops read a line a round for each of their loads. The next reads of `reads` are fetched as by
// PrefetchRuns, but row after row: each round fetches as many lines as it reads, one beside each of its loads.
struct PrefetchRows {
    std::vector<LoweredLoop> reads;   // loops that begin a row first
    Halide::Expr lines;               // of a row
    std::vector<LoweredLoop> around;  // loops around `reads`, innermost first
};

// Each round of `beside` fetches the next `lines` lines of the row of an output that `stores`, a later loop, begins to store in
// its first round, so that the stores find their lines in the cache.
struct PrefetchStores {
    LoweredLoop stores, beside;
    int lines;
};

struct Prefetch {
    Halide::ImageParam input;  // none for PrefetchStores, whose loop names the output
    std::variant<PrefetchRegion, PrefetchLines, PrefetchRuns, PrefetchRows, PrefetchStores> what;
};
// Regions become Halide's directives; the others are passes, as are the corrections of Halide's code for regions.
void add_prefetches(Halide::Pipeline, const std::vector<Prefetch> &);

}  // namespace attune
