// SPDX-License-Identifier: MIT
// What fixes the bits of a result, beside the form (blocked, bf16 dot products, AMX): the type and the order of its sums. Of
// decode they depend on the vector width besides, because its lanes are keys or channels, which are summed.
#pragma once
#include "generators/math/exp2.h"

namespace attune {

struct SdpaNumerics {
    Halide::Type accumulator;
    int kv_block;     // keys of a KV block, whose partials are merged in order
    int kv_subblock;  // keys of it that are taken together, or left out where a tile sees none of them; divides kv_block
    // Channels of a score are summed in groups of so many, the last of which may lack some; 0: one after the other.
    int channel_group = 0;
    // Keys whose weighted values are summed before the sum joins that of the KV block, which would else round off as often as
    // it has keys; a multiple of kv_subblock that divides kv_block. 0: one key after another. The same of the weights alone.
    int sum_keys = 0, sum_weights = 0;
    // By which weights are computed, the results of most exponentials. They change no result but those that are denormal.
    PowerInstructions powers = {};
};

}  // namespace attune
