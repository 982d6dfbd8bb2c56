// SPDX-License-Identifier: MIT
// Attention by SIMT lanes without shared memory: a lane holds a few rows and, with its neighbours, their channels, and passes
// once over all keys. The form differs from SdpaStages because each lane keeps one online softmax (maximum, sum and weighted
// values) instead of the partials of all KV blocks: registers hold it for any number of keys. Scores, masks, lengths and bands
// are those of blocked_stages.h: a lane's rows are a tile.
#pragma once
#include "generators/attention/forward/blocked_stages.h"

namespace attune {

// Distribution of rows and channels to lanes. Lane t of a head holds rows [t / channel_lanes * rows, ...) and of each row
// channels [t % channel_lanes * lane_channels(), ...). A group of lanes leaves out KV blocks together.
struct SimtShape {
    int rows;           // of a lane
    int channel_lanes;  // lanes that share the channels of a row: a power of two
    int group;          // lanes that loop over the keys in step, a multiple of channel_lanes
    int channels;       // of a head, at most: a multiple of channel_lanes

    int lane_channels() const { return channels / channel_lanes; }
    int group_rows() const { return group / channel_lanes * rows; }
};

// The channel of element j of lane t; and `read` of a channel, or 0 where heads have fewer channels than lanes hold.
Halide::Expr channel_of_lane(const SimtShape &, const Halide::Expr &j, const Halide::Expr &t);
Halide::Expr within_head(const SimtShape &, const Halide::Expr &channel, const Halide::Expr &channels,
                         const std::function<Halide::Expr(Halide::Expr)> &read);

// Instructions of a target. sum: the sum of term(lane) over the lanes that share the channels of lane t's rows.
struct SimtInstructions {
    bool exchange;  // lanes read each other's registers: sum calls term(t) alone
    std::function<Halide::Expr(Halide::Expr)> exp2, reciprocal;
    std::function<Halide::Expr(Halide::Expr, Halide::Expr)> max;  // of two numbers; any result for a NaN
    std::function<Halide::Expr(const std::function<Halide::Expr(Halide::Expr lane)> &term, const Halide::Expr &t, int lanes)>
        sum;
};

struct SimtBlockStages {
    KvBlockStages p;          // qk, score with its steps, row_max
    Halide::Func key, value;  // (j, k, c, t, h, b): a lane's channels of a key, and of a value
    Halide::Func qk_share;    // (r, k, c, t, h, b): a lane's share of the score
    Halide::RVar channel, online_key, online_block;
};

struct SimtStages {
    SdpaStages s;        // row_begin, row_end, out; t counts lanes
    Halide::Func query;  // (j, r, t, h, b): a lane's channels of its rows
    SimtBlockStages full, partial;
    Halide::Func online_softmax, lse;  // (r, t, h, b): Tuple {weighted values of the lane's channels, sum, maximum}
    // out is an update over these loops, the lane being row_lane * channel_lanes + share: only a lane itself stores its values.
    Halide::RVar element, share, row, row_lane;
    Halide::Var j{"j"};
    // Split form only: online_softmax has a split p of the keys behind t; `state` is the update over rows and splits, in place
    // of out: (d, row * splits + p, h, b) Tuple {weighted values, sum, maximum}; and out is the merge of `state`.
    Halide::Func state;
    Halide::RVar state_split;
    SdpaStages merged;  // total_max to total_pv
    Halide::Var p{"p"};
};

// Inputs as in sdpa_stages(), with query, key and value in f32; t of shortest and longest counts lanes, and finite_values is
// not read. `stored` converts a result to the stored type. The last tile of tile_q queries is padded with lanes that store
// nothing.
SimtStages simt_stages(const SdpaInputs &, const SimtShape &, int kv_block, int tile_q, const Score &, const SimtInstructions &,
                       const std::function<Halide::Expr(Halide::Expr)> &stored);

// The form whose rows are the queries of all query heads that share a key head. Keys are cut in splits of `split_keys` (a
// multiple of kv_block), each with an online softmax of its own; splits are merged in order. lse and out as in
// sdpa_split_stages().
SimtStages simt_split_stages(const SdpaInputs &, const SimtShape &, int kv_block, int split_keys, int tile_rows, const Score &,
                             const SimtInstructions &, const std::function<Halide::Expr(Halide::Expr)> &stored);

}  // namespace attune
