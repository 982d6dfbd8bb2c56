// SPDX-License-Identifier: MIT
// What is computed where lanes share a row and work side by side: the softmax of each row over its first keys. Another form
// than masked_softmax_stages.h because no lane has vectors, or memory to keep the weights in: a row is read three times.
//
// Lane e takes keys e, e + lanes, e + 2 lanes..., some in each turn. Maximum and sum are kept for each lane over its keys, then
// combined: among the lanes that read each other's registers by exchanges, and then over those groups. So a result depends on
// the number of lanes.
// Loop names: n key of a turn, c turn, e lane, j key, i query, h head, b batch. Layout innermost first.
#pragma once
#include "generators/masked_softmax/masked_softmax_stages.h"

namespace attune {

// How many lanes share a row, and how many keys a lane takes in a turn; and what instructions of a target compute. reach: of
// how many lanes, side by side, each can read the others' registers, 1 for none; exchange(x, bits): x of the lane whose number
// differs in these bits.
struct SoftmaxLanes {
    int lanes, reach;  // powers of two
    int keys;
    std::function<Halide::Expr(Halide::Expr)> exp2;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; what it makes of a NaN does not matter
    std::function<Halide::Expr(Halide::Expr, int bits)> exchange;
};

struct SoftmaxSimtStages {
    Halide::Func row_length;            // (i, b) keys of a row, within [0, keys]
    Halide::Func lane_max, lane_sum;    // (e, i, h, b) of the keys of a lane
    Halide::Func group_max, group_sum;  // (e, i, h, b) of the lanes that reach each other
    Halide::Func row_max, row_sum;      // (e, i, h, b) of all lanes
    Halide::Func masked_weight, scale;  // (e, i, h, b) as in MaskedSoftmaxStages
    Halide::Func weight;                // (n, c, e, i, h, b) of the keys of a turn, as they are stored
    Halide::Func out;  // (j, i, h, b), an update over (key, turn, lane): no lane but its own gives a lane's values
    Halide::RVar max_key, max_turn, sum_key, sum_turn, key, turn, lane;
    Halide::RVar max_group, sum_group;  // where there are several groups

    Halide::Var n{"n"}, c{"c"}, e{"e"}, j{"j"}, i{"i"}, h{"h"}, b{"b"};
};

// lengths may hold anything.
SoftmaxSimtStages softmax_simt_stages(const MaskedSoftmaxInputs &, const SoftmaxLanes &);

}  // namespace attune
