// What is computed: attention as a softmax in two levels. No tile, no vector width, no target.
//
// Keys are cut in chunks, rows of queries in tiles. A chunk gives partials (maximum, sum, weighted values); partials of
// all chunks are merged in chunk order, so that the result depends on `chunk` and on nothing else of the schedule. How a
// query and a key give a score is a parameter (equations/score.h).
// Loop names: r row in tile, t tile, k key in chunk, c chunk, d channel, h head, b batch. Layout innermost first.
#pragma once
#include "generators/attention/equations/score.h"
#include "generators/attention/forward/block_mask.h"
#include "generators/math/exp2.h"
#include "generators/math/transpose.h"
#include <optional>

namespace attune {

// Which weights are kept: conventions of runtime/include/attune/dropout.h. Not defined: all, and the kernel knows no dropout.
struct Dropout {
    // uint32; first_head is b * Hq + h of the first head; kept iff the random word is at least threshold
    Halide::Expr seed_low, seed_high, offset, first_head, threshold;
    Halide::Expr keep_scale;  // double: 1 / (1 - p)
};

// The keys that query i of batch entry b may see are [max(0, i + band_begin(b)), min(lengths(i, b), i + band_end(b))):
// one interval for valid lengths, causal and window masks alike. shortest and longest are the extremes of lengths over the
// queries of a tile. They are inputs and not a stage, because Halide lifts a condition out of the loops that it does not
// name only if it calls no Func; so a chunk is skipped before anything of it is computed.
struct SdpaInputs {
    Halide::Func query, key, value;              // (d, s, h, b)
    Halide::Func band_begin, band_end, lengths;  // (b), (b), (i, b), int32
    Halide::Func shortest, longest;              // (t, b), int32
    Halide::Func blocks;                  // (c, t, h, b), BlockSpan::packed() of the steps in_blocks, where there are any
    Halide::Func offset;                  // (b), int32: the position of query 0 among the keys
    Halide::Func finite_values;           // (b), int32: not 0 where no value is Inf or NaN; not defined: not known
    Halide::Expr scale;                   // double
    Halide::Expr queries, keys;           // extents of s
    Halide::Expr query_heads, key_heads;  // extents of h
    Halide::Expr head_dim, value_dim;     // extents of d: constants where the kernel is specialised
    Halide::Func sinks;                   // (h), float; not defined: the kernel knows none
    Halide::Expr has_sinks;
    Dropout dropout;
};

struct SdpaShape {
    Halide::Type accumulator;
    int chunk;      // keys per partial: fixes the order of summation
    int key_block;  // keys of a chunk that are taken together, or left out where a tile sees none of them; divides chunk
    // Rows that share one range of chunks; the chunks outside it are skipped. 0: no tiles, one holds all rows, and every
    // chunk is computed and masked: for schedules that place each stage on its own. It changes no result.
    int rows_per_tile;
    bool ragged_dims;  // value_dim is not a multiple of what a schedule may round channels up to: clamp loads
    // How a chunk reads a table over pairs, where it lies within the keys: in blocks of this side that are transposed
    // (rows_per_tile and chunk are multiples of it); 1: as it lies; 0: no chunk is treated apart. It changes no result.
    int pair_block = 0;
    // Keys and values of a narrower type than the accumulator's are widened once for each chunk, as stages of their own, and
    // not where they are read.
    bool widens_chunks = false;
    // Those values are of channels that exist, and clamped where they are read: for schedules that widen some channels at a time.
    // It changes no result.
    bool widens_by_line = false;
    // The output leaves a tile in transposed blocks of this side, of which rows_per_tile is a multiple; 0: as it lies. It changes no
    // result.
    int out_block = 0;
    // A tile lays its queries in transposed blocks of this side, of which rows_per_tile is a multiple; 0: as they lie. It changes no
    // result.
    int query_block = 0;
    // The maxima of a chunk are taken as its scores are made, where no step follows, and its weights are summed as they are made:
    // in a loop over the same keys, for schedules that join the two. It changes no result.
    bool joins_passes = false;
    // Of chunks that are masked, blocks of keys up to whose end every row sees all of the chunk are mixed apart, without a look at
    // what is masked. It changes no result.
    bool whole_blocks = false;
    // Channels of a score are summed in groups of so many, the last of which may lack some; 0: one after the other. It fixes the
    // order of summation.
    int channel_group = 0;
    // Keys whose weights and weighted values are summed before the sums join those of the chunk, which would else round off as
    // often as a chunk has keys; a multiple of key_block that divides chunk. 0: one key after another. It fixes the order of
    // summation.
    int sum_keys = 0;
    // By which weights are computed, the results of most exponentials. They change no result but those that are denormal.
    PowerInstructions powers = {};
};

// The keys of a chunk: key block * key_block + key. Blocks of which a tile sees nothing are left out.
struct KeyLoop {
    Halide::RVar key, block;
};

// A step of Score as an update of `logit`; its blocks are as wide as those of the tables.
struct ScoreUpdate {
    int update;
    KeyLoop keys;
    std::vector<BlockTranspose> tables;    // what it reads transposed
    std::vector<std::string> table_names;  // of what
};

// Of one chunk: s, s after all steps and masks, m = max s, p = 2^(s - m), l = sum p, o = sum p v. Of a chunk that is not
// seen whole, a masked weight is -0. logit and weight are updates, 0 of them making the values, because those can leave out
// blocks.
struct SdpaPartials {
    Halide::Func score, logit, row_max, weight, row_sum, mixed;
    Halide::Func made_weight;           // what weight stores
    Halide::Func block_sum;             // (r, block of sum_keys, c, t, h, b) of weights, where they are summed as they are made
    Halide::Func wide_key, wide_value;  // (d, k, c, t, h, b), with widens_chunks
    Halide::Func random, dropped;       // with dropout: four words for four keys, and the weights that are left
    Halide::RVar channel;
    Halide::RVar group;  // with channel_group: channel counts within a group
    KeyLoop logit_keys, max_keys, weight_keys, sum_keys;
    std::vector<KeyLoop> mixed_keys;  // of each update of mixed
    std::vector<ScoreUpdate> steps;
};

struct SdpaStages {
    std::vector<Halide::Func> prepared;  // before all others: what a score needs of each query or key alone
    Halide::Func query_t;                // (r, d, t, h, b) query, transposed
    Halide::Func row_begin, row_end;     // (r, t, b) the interval of keys of a row
    SdpaPartials full, part;             // chunks that every row sees whole, and the others
    // What leaves a chunk. Without tiles pure copies of part; else update 0 takes the full chunks, 1 the others.
    Halide::Func chunk_max, chunk_sum;  // (r, c, t, h, b)
    Halide::Func chunk_mixed;           // (r, d, c, t, h, b)
    Halide::Func chunk_packed;          // (d, r, c, t, h, b) split form only: the three in one Func
    Halide::RVar full_chunk, part_chunk;
    // Merge: M = max m, 2^(m - M), L, O, O / L, lse = ln2 (M + log2 L).
    Halide::Func total_max, chunk_scale, total_sum, total_mixed, normalised, lse;
    Halide::RVar max_chunk, sum_chunk, mixed_chunk;
    std::optional<BlockTranspose> out_blocks;    // normalised, with out_block
    std::optional<BlockTranspose> query_blocks;  // (r, d, t, h, b) what query_t transposes, with query_block
    Halide::Func out;                            // (d, i, h, b) Tuple {out, lse}

    Halide::Var r{"r"}, t{"t"}, k{"k"}, c{"c"}, d{"d"}, i{"i"}, h{"h"}, b{"b"};
};

// Rows are the queries of one query head.
SdpaStages sdpa_stages(const SdpaInputs &, const SdpaShape &, const Score &);

// Rows are the queries of all query heads that share a key head (h is the key head), so that one pass over K and V serves
// the group; the partials of a chunk are one Func of value_dim + 2 channels, so that one parallel loop over chunks yields
// all three of them.
SdpaStages sdpa_split_stages(const SdpaInputs &, const SdpaShape &, const Score &);

}  // namespace attune
