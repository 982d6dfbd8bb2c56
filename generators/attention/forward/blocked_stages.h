// SPDX-License-Identifier: MIT
// Attention as a softmax in two levels. No tile, no vector width, no target.
//
// Keys are cut in KV blocks, rows of queries in tiles. A KV block gives partials (maximum, sum, weighted values); the partials
// of all KV blocks are merged in block order, so that the result depends on `kv_block` and on no other choice of the schedule.
// The score of a query and a key is a parameter (equations/score.h).
// Loop names: r row in tile, t tile, k key in KV block, c KV block, d channel, h head, b batch. Layout innermost first.
#pragma once
#include "generators/attention/equations/score.h"
#include "generators/attention/forward/block_mask.h"
#include "generators/attention/forward/inputs.h"
#include "generators/attention/forward/numerics.h"
#include "generators/attention/forward/schedule_hints.h"
#include "generators/math/exp2.h"
#include "generators/math/transpose.h"
#include <optional>

namespace attune {

// The keys of a KV block: subblock * kv_subblock + key. Subblocks of which a tile sees nothing are left out.
struct KeyLoop {
    Halide::RVar key, subblock;
};

// A step of Score as an update of `score`; its blocks are as wide as those of the tables.
struct ScoreUpdate {
    int update;
    KeyLoop keys;
    std::vector<BlockTranspose> tables;    // the tables that it reads transposed
    std::vector<std::string> table_names;  // the names of those tables
};

// Stages of one KV block: s, s after all steps and masks, m = max s, p = 2^(s - m), l = sum p, o = sum p v. In a partial KV
// block a masked weight is -0. score and weight are updates, update 0 making the values, because updates can leave out
// subblocks.
struct KvBlockStages {
    Halide::Func qk, score, row_max, weight, row_sum, pv;
    Halide::Func made_weight;           // the values that weight stores
    Halide::Func subblock_sum;          // (r, block of sum_weights, c, t, h, b)
    Halide::Func wide_key, wide_value;  // (d, k, c, t, h, b), with widens_kv_blocks
    Halide::Func random, dropped;       // with dropout: four words for four keys, and the weights after dropout
    Halide::RVar channel;
    Halide::RVar group;  // with channel_group: channel counts within a group
    KeyLoop score_keys, max_keys, weight_keys, sum_keys;
    std::vector<KeyLoop> pv_keys;  // one for each update of pv
    std::vector<ScoreUpdate> steps;
};

struct SdpaStages {
    std::vector<Halide::Func> prepared;  // before all others: values that a score needs of each query or key alone
    Halide::Func query_t;                // (r, d, t, h, b) query, transposed
    Halide::Func row_begin, row_end;     // (r, t, b): interval of keys of a row
    KvBlockStages full, partial;         // KV blocks that every row sees whole, and the others
    // Results of a KV block. Without tiles pure copies of partial; else update 0 takes the full KV blocks, update 1 the others.
    Halide::Func block_max, block_sum;  // (r, c, t, h, b)
    Halide::Func block_pv;              // (r, d, c, t, h, b)
    Halide::Func block_packed;          // (d, r, c, t, h, b), split form only: the three in one Func
    Halide::RVar full_block, partial_block;
    // Merge: M = max m, 2^(m - M), L, O, O / L, lse = ln2 (M + log2 L).
    Halide::Func total_max, block_scale, total_sum, total_pv, normalised, lse;
    Halide::RVar max_block, sum_block, pv_block;
    std::optional<BlockTranspose> out_blocks;    // normalised, with out_block
    std::optional<BlockTranspose> query_blocks;  // (r, d, t, h, b): transposition in query_t, with query_block
    Halide::Func out;                            // (d, i, h, b) Tuple {out, lse}

    Halide::Var r{"r"}, t{"t"}, k{"k"}, c{"c"}, d{"d"}, i{"i"}, h{"h"}, b{"b"};
};

// The form whose rows are the queries of one query head.
SdpaStages sdpa_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);

// The form whose rows are the queries of all query heads that share a key head (h is the key head), so that one pass over K and
// V serves the group. The partials of a KV block are one Func of value_dim + 2 channels, so that one parallel loop over KV
// blocks yields all three.
SdpaStages sdpa_split_stages(const SdpaInputs &, const SdpaNumerics &, const ScheduleHints &, const Score &);

}  // namespace attune
