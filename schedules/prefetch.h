// How memory is asked for before it is read.
#pragma once
#include "Halide.h"

namespace attune {

// Each round of a loop of `stage` fetches what the round `rounds` later reads of `input`; none for 0. Takes fetch_into_caches() to go
// into more than the first cache.
void fetch_ahead(Halide::Stage stage, const Halide::ImageParam &input, const Halide::RVar &loop, int rounds);

// Halide's prefetches are `prefetchnta`, which some processors take past L2. Those of this pipeline go into all caches.
void fetch_into_caches(Halide::Pipeline);

}  // namespace attune
