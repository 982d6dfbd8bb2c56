// SPDX-License-Identifier: MIT
// What is computed where lanes work side by side without memory of their own to meet in: a lane holds a few rows and, with its
// neighbours, their channels, and walks all keys once. Another form than SdpaStages because each lane keeps one running softmax
// (maximum, sum and weighted values) instead of the partials of all chunks: registers hold it for any number of keys.
// Scores, masks, lengths and bands are those of blocked_stages.h: a lane's rows are a tile of theirs.
#pragma once
#include "generators/attention/forward/blocked_stages.h"

namespace attune {

// How rows and channels are dealt to lanes. Lane t of a head holds rows [t / channel_lanes * rows, ...) and of each of them
// channels [t % channel_lanes * lane_channels(), ...). A group of lanes is what leaves out chunks of keys together.
struct LaneShape {
    int rows;           // of a lane
    int channel_lanes;  // that share the channels of a row: a power of two
    int group;          // lanes that walk the keys in step, a multiple of channel_lanes
    int channels;       // of a head, at most: a multiple of channel_lanes

    int lane_channels() const { return channels / channel_lanes; }
    int group_rows() const { return group / channel_lanes * rows; }
};

// The channel that element j of lane t is; and what `read` says of it, or 0 where heads are smaller than what lanes hold.
Halide::Expr channel_of_lane(const LaneShape &, const Halide::Expr &j, const Halide::Expr &t);
Halide::Expr within_head(const LaneShape &, const Halide::Expr &channel, const Halide::Expr &channels,
                         const std::function<Halide::Expr(Halide::Expr)> &read);

// What instructions of a target compute. sum: the sum of term(lane) over the lanes that share the channels of lane t's rows.
struct LaneInstructions {
    bool exchange;  // lanes read each other's registers: sum asks term(t) alone
    std::function<Halide::Expr(Halide::Expr)> exp2, reciprocal;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; what it makes of a NaN does not matter
    std::function<Halide::Expr(const std::function<Halide::Expr(Halide::Expr lane)> &term, const Halide::Expr &t, int lanes)>
        sum;
};

struct LanePartials {
    SdpaPartials p;           // score, logit with its steps, row_max
    Halide::Func key, value;  // (j, k, c, t, h, b) a lane's channels of a key, and of a value
    Halide::Func part_score;  // (r, k, c, t, h, b) a lane's share of the score
    Halide::RVar channel, running_key, running_chunk;
};

struct LaneStages {
    SdpaStages s;        // row_begin, row_end, out; t counts lanes
    Halide::Func query;  // (j, r, t, h, b) a lane's channels of its rows
    LanePartials full, part;
    Halide::Func running, lse;  // (r, t, h, b) Tuple {weighted values of each channel of the lane, sum, maximum}
    // out is an update over these, the lane being row_lane * channel_lanes + share: no lane but its own gives a lane's values.
    Halide::RVar element, share, row, row_lane;
    Halide::Var j{"j"};
    // Of split form only: running has a part p of the keys behind t, and `state` is that update, of rows and parts, instead of
    // out: (d, row * parts + p, h, b) Tuple {weighted values, sum, maximum}. out is their merge.
    Halide::Func state;
    Halide::RVar state_part;
    SdpaStages merged;  // total_max to total_mixed
    Halide::Var p{"p"};
};

// Inputs as those of sdpa_stages(), query, key and value in f32; t of shortest and longest counts lanes, and finite_values is
// not asked for. `stored` makes of a result what is stored. The last tile of tile_q queries is filled up by lanes that store
// nothing.
LaneStages lane_stages(const SdpaInputs &, const LaneShape &, int chunk, int tile_q, const Score &, const LaneInstructions &,
                       const std::function<Halide::Expr(Halide::Expr)> &stored);

// Rows are the queries of all query heads that share a key head, and keys are cut in parts of `part` (a multiple of chunk),
// each with a running softmax of its own, which are merged in the order of parts. lse and out are those of sdpa_split_stages().
LaneStages lane_split_stages(const SdpaInputs &, const LaneShape &, int chunk, int part, int tile_rows, const Score &,
                             const LaneInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
