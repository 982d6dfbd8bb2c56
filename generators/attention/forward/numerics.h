// SPDX-License-Identifier: MIT
// Numerics of an attention: the type and the order of its sums, which with the form (blocked, bf16 dot products, AMX) fix the
// bits of a result. In decode the vector width does too: its lanes are keys or channels, which are summed.
#pragma once
#include "generators/math/exp2.h"

namespace attune {

struct SdpaNumerics {
    Halide::Type accumulator;
    int kv_block;     // keys of a KV block, whose partials are merged in order
    int kv_subblock;  // keys that are computed, or left out where a tile sees none, together; divides kv_block
    // Channels of a score are summed in groups of this size, the last of which may be smaller; 0: one after the other.
    int channel_group = 0;
    // Keys whose weighted values are summed before the sum joins the KV block's, which would otherwise be rounded once for each
    // key; a multiple of kv_subblock that divides kv_block. 0: one key after another. sum_weights: likewise for the weights.
    int sum_keys = 0, sum_weights = 0;
    // Instructions for the weights, which are the results of most exponentials. Such instructions change denormal results only.
    PowerInstructions powers = {};
};

}  // namespace attune
