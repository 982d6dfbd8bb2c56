// SPDX-License-Identifier: MIT
// Softmax of each row over its first keys, by SIMT lanes that share a row. The form differs from masked_softmax_stages.h
// because a lane has no vectors, and no memory for the weights: a row is read three times.
//
// Lane e takes keys e, e + lanes, e + 2 lanes..., `keys` of them in each turn. Each lane has the maximum and sum of its keys,
// which are then combined: among lanes that read each other's registers by exchanges, then over those groups. So a result
// depends on the number of lanes.
// Loop names: n key of a turn, c turn, e lane, j key, i query, h head, b batch. Layout innermost first.
#pragma once
#include "generators/masked_softmax/masked_softmax_stages.h"

namespace attune {

// Lanes that share a row, keys that a lane takes in a turn, and instructions of a target. reach: number of neighbouring lanes
// that read each other's registers, 1 for none; exchange(x, bits): x of the lane whose number differs in these bits.
struct SoftmaxLanes {
    int lanes, reach;  // powers of two
    int keys;
    std::function<Halide::Expr(Halide::Expr)> exp2;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; any result for a NaN
    std::function<Halide::Expr(Halide::Expr, int bits)> exchange;
};

struct SoftmaxSimtStages {
    Halide::Func row_length;            // (i, b): keys of a row, within [0, keys]
    Halide::Func lane_max, lane_sum;    // (e, i, h, b): of the keys of a lane
    Halide::Func group_max, group_sum;  // (e, i, h, b): of the lanes that reach each other
    Halide::Func row_max, row_sum;      // (e, i, h, b): of all lanes
    Halide::Func masked_weight, scale;  // (e, i, h, b): as in MaskedSoftmaxStages
    Halide::Func weight;                // (n, c, e, i, h, b): of the keys of a turn, as stored
    Halide::Func out;                   // (j, i, h, b), an update over (key, turn, lane): only a lane itself stores its values
    Halide::RVar max_key, max_turn, sum_key, sum_turn, key, turn, lane;
    Halide::RVar max_group, sum_group;  // with several groups

    Halide::Var n{"n"}, c{"c"}, e{"e"}, j{"j"}, i{"i"}, h{"h"}, b{"b"};
};

// lengths may hold any numbers.
SoftmaxSimtStages softmax_simt_stages(const MaskedSoftmaxInputs &, const SoftmaxLanes &);

}  // namespace attune
