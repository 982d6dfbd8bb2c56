// SPDX-License-Identifier: MIT
// Parts of the split-KV schedules of few rows: shared ones, and ones for a head size or a type of the products.
#pragma once
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
    int lanes;

    Halide::LoopLevel level() const { return {s.block_packed, s.t}; }
    int tile_channels() const { return lanes * parameters.channel_tile; }
    // The keys of a block are distinct, which Halide does not see through the block.
    void along_keys(Halide::Stage f, const KeyLoop &keys) const {
        f.reorder(keys.key, s.r, keys.subblock).allow_race_conditions().vectorize(keys.key, lanes);
    }
};

// Weighted values of a KV block: the first register tile of channels streams a block of V in, the others find it in L1. For one
// head size, for any, and as bf16 dot products.
void schedule_decode_values(const DecodeBlock &, const Halide::ImageParam &value);
void schedule_decode_values_of_any_size(const DecodeBlock &, const Halide::Expr &value_dim);
void schedule_decode_values(const DecodeBlock &, const Halide::ImageParam &value, const SdpaBf16DotStages &,
                            const SdpaBf16DotStages::Pairs &);

}  // namespace attune
