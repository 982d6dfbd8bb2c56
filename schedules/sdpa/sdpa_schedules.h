// SPDX-License-Identifier: MIT
// How attention is computed: one free function per schedule. No equation, no Func of its own but wrappers.
#pragma once
#include "generators/attention/forward/amx_stages.h"
#include "generators/attention/forward/weights_stages.h"
#include "lowering/lower.h"
#include <functional>

namespace attune {

// A kernel as far as the hints of its schedule depend on it.
struct SdpaKernel {
    Halide::Type type, accumulator;
    int head_dim;                // 0: any sizes, known at run time
    bool reads_tables = false;   // over pairs: a bias, a mask
    bool additive = false;       // scores are no products
    bool bf16_products = false;  // may be of pairs of bf16: those of dot products, without dropout or a factor of the weights
    Halide::Expr probabilities;  // defined: the weights leave, or the scores (weights_stages.h)
};

// Every stage in full, one after the other: the oracle and the baseline of the others. Has no parameters.
void schedule_root(SdpaStages &, Halide::Func out);
void schedule_weights_root(WeightsStages &, Halide::Func out);
ScheduleHints hints_for_root(const SdpaKernel &);

struct PrefillParameters {
    int kv_block;      // keys of a partial (the stages' kv_block), a multiple of key_tile
    int tile_q;        // rows of a task (the stages' rows_per_tile), a multiple of the vector width
    int key_tile;      // keys of a register tile of scores (the stages' kv_subblock)
    int channel_tile;  // channels of a register tile of weighted values
    // Of prefill: channels whose values are widened together, a multiple of channel_tile (the stages' widens_by_line); 0: all.
    int line_channels = 0;
    int sum_keys = 0;  // of split: the stages' sum_keys
};
// One task is one tile of queries of one head. Lanes are queries. For few and for many queries alike.
void schedule_prefill(SdpaStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &,
                      Halide::Expr value_dim);
ScheduleHints hints_for_prefill(const PrefillParameters &, const SdpaKernel &);
// line_channels for it: those of a cache line of values, where these are narrower than weights and the weights of a KV block
// fill much of the first cache. Widened values of all channels would drive them out, and all the more where a value takes a
// power of two of lines, so that those of some keys share sets.
int line_channels_of(const PrefillParameters &, const Halide::Type &value, const Halide::Type &weight);

// Of prefill, for K and V that come from beyond L2: while a register tile is computed, what a later one reads is fetched,
// keys of the next tile of keys and the next cache line of each value.
void fetch_next_tiles(const SdpaStages &, Passes &, const Halide::ImageParam &key, const Halide::ImageParam &value,
                      int channel_tile);

// Of prefill, for head sizes that the generator knows: while the scores of a task's first KV blocks are computed, queries of
// the next task are fetched.
void fetch_next_queries(const SdpaStages &, Halide::Func out, Passes &, const Halide::ImageParam &query, int head_dim);

// Of prefill and pairs: while a KV block is scored, the rows that its steps will read of a table of pairs, a bias or a mask,
// are fetched, where that is given. `name`: what the steps call it (ScoreUpdate).
void fetch_tables(const SdpaStages &, Passes &, const Halide::ImageParam &table, const std::string &name,
                  const Halide::Expr &given, const PrefillParameters &);

// The same where products take pairs of bf16; key_tile is even.
void schedule_bf16_dot(SdpaBf16DotStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &,
                       Halide::Expr value_dim);
ScheduleHints hints_for_bf16_dot(const PrefillParameters &, const SdpaKernel &);

// The same where products are of AMX tiles; tile_q and channel_tile are multiples of their side, kv_subblock, which
// stands for key_tile, of their depth.
void schedule_amx(SdpaAmxStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &, Halide::Expr value_dim);
ScheduleHints hints_for_amx(const PrefillParameters &, const SdpaKernel &);

struct DecodeParameters {
    int kv_block;       // keys of a partial (the stages' kv_block)
    int row_tile;       // rows of a key head taken through K and V together (the stages' rows_per_tile)
    int kv_subblock;    // the stages' kv_subblock, a multiple of key_tile, value_block and the vector width; divides kv_block
    int key_tile;       // keys whose scores are computed together
    int value_block;    // keys of V that stay in L1 while all rows use them
    int channel_tile;   // vectors of channels accumulated together
    int value_rows;     // rows accumulated together, divides row_tile; 0: all of them
    int prefetch_keys;  // keys ahead of which K and V are fetched (prefetch.h), a multiple of key_tile and value_block; 0: none
};
// One task is one KV block of one key head. Lanes are channels in both products. For at most a few rows. `pairs` are the
// stages around those where products take pairs of bf16.
void schedule_decode(SdpaStages &, Halide::Func out, Passes &, const DecodeParameters &, const Halide::Target &,
                     Halide::Expr value_dim, const Halide::ImageParam &key, const Halide::ImageParam &value,
                     SdpaBf16DotStages *pairs = nullptr);

ScheduleHints hints_for_decode(const DecodeParameters &, const SdpaKernel &, const Halide::Target &);
// Decode takes pairs of bf16 wherever the target gains by it: where few rows share a key, widening it is most of the work.
bool decode_takes_pairs(const SdpaKernel &, const Halide::Target &);

// The stages' channel_group for it; channels of one head size fill its vectors.
int decode_channel_group(const Halide::Target &, const Halide::Type &accumulator, int head_dim);

// The same tasks where there are more rows: lanes are rows, and each product is that of prefill.
void schedule_split(SdpaStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &, Halide::Expr value_dim);
ScheduleHints hints_for_split(const PrefillParameters &, const SdpaKernel &);
// The merge that both share: a few reductions over the KV blocks for each row.
void schedule_split_merge(SdpaStages &, Halide::Func out, int lanes);

struct WeightsParameters {
    int kv_block;  // keys whose scores are computed together (the stages' kv_block), a multiple of key_tile
    int tile_q;    // rows of a task (the stages' rows_per_tile), a multiple of the vector width
    int key_tile;  // keys of a register tile of scores
};

// Weights or scores: one task is one tile of queries of one head and holds the scores of all keys. Lanes are queries, and
// what leaves is transposed in blocks.
void schedule_weights(WeightsStages &, Halide::Func out, const WeightsParameters &, const Halide::Target &);
ScheduleHints hints_for_weights(const WeightsParameters &, const SdpaKernel &);

// Baselines of the benchmarks, never dispatched: what Halide's autoschedulers found for the algorithm of root, at
// 1x8x1024x1024x64 (scripts/autoschedule).
void schedule_mullapudi2016(const Halide::Pipeline &, const Halide::Target &);
void schedule_adams2019(const Halide::Pipeline &, const Halide::Target &);

// Parts of the schedules above.

// Hints that all schedules by tiles of rows give: a tile of so many rows, and tables of pairs transposed in blocks as wide as a
// cache line, where the tile and the KV block allow it.
ScheduleHints hints_for_tiles(int tile_q, int kv_block, const SdpaKernel &);
// The side of those blocks where queries, too, are transposed in them; else 0.
int query_block_of(int tile_q, int kv_block, const SdpaKernel &);

// Gives a stage of one task, which is a tile of rows of one head, constant extents.
using OneTask = std::function<Halide::Func &(Halide::Func &)>;
OneTask one_task_of(const SdpaStages &, int tile_q);
// The same for a stage of one KV block.
OneTask one_kv_block_of(const SdpaStages &, int tile_q);

// Of a schedule with one task for a tile of queries: tasks and merge, the loop of out over tasks being the answer; and what
// leaves a KV block besides the weighted values, in their loop over the KV blocks that update `stage` takes: full ones first,
// then those that a mask touches.
Halide::Var schedule_tasks(SdpaStages &, Halide::Func out, const PrefillParameters &, int lanes, const OneTask &);
// Queries of a task, transposed: lanes are rows. In blocks where the stages have them.
void schedule_query(SdpaStages &, const Halide::LoopLevel &task, int lanes, const OneTask &);
void schedule_kv_block_sums(SdpaStages &, int stage, Halide::Stage pv, const Halide::RVar &kv_block, int lanes);
// Both.
struct TileLoops {
    Halide::Var task, channels;  // of out; of block_pv: one step of it is channel_tile channels
    Halide::Var lines;           // of block_pv: one step of it is line_channels channels, if there are any
};
TileLoops schedule_tiles(SdpaStages &, Halide::Func out, const PrefillParameters &, int lanes, const OneTask &);
void require_tiles(const PrefillParameters &, int lanes, Halide::Expr value_dim);

// The scores of one KV block, QK^T included, lanes are queries; and all that is computed of it. `kv_block` is the loop in which
// there is one KV block, `channels` the one in which a register tile of weighted values is wanted; in_blocks: blocks of keys
// may be left out; sum_blocks: how many blocks of keys are summed before their sum joins that of the KV block, 0: none apart.
// Where values are widened is its callers' to say.
void schedule_qk_and_scores(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes,
                            const OneTask &);
void schedule_kv_block(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block,
                       const Halide::LoopLevel &channels, bool in_blocks, int lanes, const OneTask &, int sum_blocks = 0);
// The softmax of one KV block, and its maxima alone.
void schedule_softmax(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes, const OneTask &);
void schedule_row_max(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes, const OneTask &);
// The scores of one KV block without QK^T: that is computed block by block of them. Then the steps of the score, one
// pass each over the scores in L1, skipped as a whole where its option is not given.
void schedule_scores(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes, const OneTask &);
// Of each query or key alone: small, and in full before all others.
void schedule_prepared(const std::vector<Halide::Func> &, int lanes);

}  // namespace attune
