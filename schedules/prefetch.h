// How memory is asked for before it is read.
#pragma once
#include "Halide.h"

namespace attune {

constexpr int cache_line_bytes = 64;

// Each round of a loop of `stage` fetches what the round `rounds` later reads of `input`; none for 0. Takes fetch_into_caches() to go
// into more than the first cache.
void fetch_ahead(Halide::Stage stage, const Halide::ImageParam &input, const Halide::RVar &loop, int rounds);

// A loop of a lowered pipeline: that of a stage of `func` (0: its pure definition, n: update n - 1) over `var`, or over the outer part
// of it where it is split.
struct LoweredLoop {
    Halide::Func func;
    int stage;
    std::string var;
    bool is(const std::string &name) const;
};
// Each round of `inner` fetches, into all caches, what it will read of `input` when `outer`, that loop or one around it, is `rounds`
// further; none for 0. Spread so over the sums of a register tile, lines come while it is computed; all those of the next tile at its begin would
// be waited for.
void fetch_for_later(Halide::Pipeline, const Halide::ImageParam &input, const LoweredLoop &inner, const LoweredLoop &outer,
                     int rounds);

// The same for the next time that `inner`, of `rounds` rounds at most, begins: when the first of the loops `around` it, innermost first,
// that is not at its end goes on, or else the last. Row after row: `lines_of_run` lines of one that follow each other, then those of the
// next, since memory gives neighbours sooner than lines of many rows in turn.
void fetch_runs(Halide::Pipeline, const Halide::ImageParam &input, const LoweredLoop &inner,
                const std::vector<LoweredLoop> &around, int rounds, int lines_of_run);

// Halide's prefetches are `prefetchnta`, which some processors take past L2. Those of this pipeline go into all caches.
void fetch_into_caches(Halide::Pipeline);

}  // namespace attune
