// SPDX-License-Identifier: MIT
// Parts of the split-KV schedules of few rows: shared ones, and ones for a head size or a type of the products.
#pragma once
#include "generators/attention/forward/placed_rows.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {

namespace decode_loops {
inline const Halide::RVar ko("ko"), ki("ki");                    // of the scores: tiles of keys, and a key in one
inline const Halide::RVar co("co"), ci("ci");                    // of one score: vectors of channels, and a channel in one
inline const Halide::RVar block("block"), in_block("in_block");  // of the values: blocks of keys, and a key in one
inline const Halide::RVar mo("mo"), mi("mi");                    // of a row of scores: vectors of keys, and a key in one
inline const Halide::Var lane("lane"), dO("do"), di("di"),
    vectors("vectors");  // channels in register tiles, and of these in vectors
}  // namespace decode_loops

// The partials of one KV block, in the loop over tiles of rows of the Func that holds all partials.
struct DecodeBlock {
    const SdpaStages &s;
    KvBlockStages p;
    const DecodeParameters &parameters;
    Passes &passes;
    const DecodeInputs &in;
    int lanes;

    Halide::LoopLevel level() const { return {s.block_packed, s.t}; }
    bool in_pages() const { return in.row_shift.defined(); }
    // Fetches the region that a round of a loop reads some rounds later; of pages line by line, as the places of its rows are
    // known at run time only.
    void prefetch(const Halide::ImageParam &input, const PrefetchRegion &region, const LoweredLoop &loop) const {
        const auto rounds = Halide::Internal::as_const_int(region.rounds);
        if (in_pages())
            passes.prefetches.push_back({input, PrefetchLines{loop, loop, static_cast<int>(*rounds)}});
        else
            passes.prefetches.push_back({input, region});
    }
    // In pages: the keys of a round of the loop lie in one run.
    void lift_shifts(const LoweredLoop &loop) const {
        if (in_pages()) passes.lifted_shifts.push_back({in.row_shift, loop});
    }
    int tile_channels() const { return lanes * parameters.channel_tile; }
    // The keys of a block are distinct, which Halide does not see through the block.
    void along_keys(Halide::Stage f, const KeyLoop &keys) const {
        f.reorder(keys.key, s.r, keys.subblock).allow_race_conditions().vectorize(keys.key, lanes);
    }
};

// Weighted values of a KV block: the first register tile of channels streams a block of V in, the others find it in L1. For one
// head size, for any, and as bf16 dot products.
void schedule_decode_values(const DecodeBlock &);
void schedule_decode_values_of_any_size(const DecodeBlock &);
void schedule_decode_values(const DecodeBlock &, const SdpaBf16DotStages &, const SdpaBf16DotStages::Pairs &);

}  // namespace attune
