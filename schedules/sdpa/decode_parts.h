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
    int product_rows = parameters.row_tile;  // rows of the products of query and key

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

// Checks of the parameters, the packed partials of a KV block with their merge, and queries; product_rows: their rows. Returns
// the lanes.
int begin_decode(SdpaStages &, Halide::Func out, const DecodeParameters &, const Halide::Target &, const DecodeInputs &,
                 int product_rows);
// The tasks of update `stage`: full KV blocks, or partial ones; of one key head, or of heads_of_task, one after another.
Halide::Stage schedule_kv_block_tasks(const SdpaStages &, int stage, const DecodeInputs &, int lanes);
// Stages that full and partial KV blocks have in common: tasks, scores without the products, and dropout.
DecodeBlock begin_kv_block(SdpaStages &, int stage, const DecodeParameters &, Passes &, const DecodeInputs &, int lanes);
// Products as lanes of partial sums over the channels, `lane_qk`, added up across lanes at the end by the loop `across` of the
// score: two vectors give one of sums of neighbours, until each sum is one lane. Returns the sums of a tile of keys.
Halide::Func schedule_lane_qk(const DecodeBlock &, Halide::Func qk, Halide::Func lane_qk, const Halide::RVar &of_lane,
                              const Halide::RVar &across);
// Keys one after another, so that K is read in memory order; the sums of a key are in registers. Returns the lanes of sums.
Halide::Func schedule_qk_of_one_size(const DecodeBlock &, Halide::Func qk);
// A reduction of each row along a loop, in vectors of `width` lanes, which are returned.
Halide::Func reduced_in_lanes(Halide::Func, const Halide::RVar &along, const Halide::Var &row, int width);
// Softmax: lanes are keys.
void schedule_decode_softmax(const DecodeBlock &);
// Constant sizes: no allocation in a task that may be short. `elements`: of a weight.
void bound_decode_block(const DecodeBlock &, int elements = 1);
// Small stages of constant size on the stack. For any head size Halide does not see that KV blocks have one size; and it frees
// other stages on the stack as if they were on the heap where a later allocation fails (Halide 21).
void keep_small_on_stack(const DecodeBlock &);

// Weighted values of a KV block: the first register tile of channels streams a block of V in, the others find it in L1. For one
// head size, for any, and as bf16 dot products.
void schedule_decode_values(const DecodeBlock &);
void schedule_decode_values_of_any_size(const DecodeBlock &);
void schedule_decode_values(const DecodeBlock &, const SdpaBf16DotStages &, const SdpaBf16DotStages::Pairs &);

}  // namespace attune
