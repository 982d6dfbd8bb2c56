// SPDX-License-Identifier: MIT
// Schedules of attention, one free function each. No equation, no Func of their own except wrappers.
#pragma once
#include "generators/attention/forward/amx_stages.h"
#include "generators/attention/forward/int8_stages.h"
#include "generators/attention/forward/weights_stages.h"
#include "lowering/lower.h"
#include <functional>

namespace attune {

// Properties of a kernel on which the hints of its schedule depend.
struct SdpaKernel {
    Halide::Type type, accumulator;
    int head_dim;                // 0: any sizes, known at run time
    bool reads_tables = false;   // over pairs: a bias, a mask
    bool additive = false;       // scores are no products
    bool bf16_products = false;  // bf16 dot products allowed: scores are products, without dropout or a factor of the weights
    bool int8_rows = false;      // keys and values are int8, with scales
    Halide::Expr probabilities;  // defined: the output is the weights, or the scores (weights_stages.h)
};

// Every stage in full, one after the other: the oracle and the baseline of the others. No parameters.
void schedule_root(SdpaStages &, Halide::Func out);
void schedule_weights_root(WeightsStages &, Halide::Func out);
ScheduleHints hints_for_root(const SdpaKernel &);

struct PrefillParameters {
    int kv_block;      // keys of a partial (the stages' kv_block), a multiple of key_tile
    int tile_q;        // rows of a task (the stages' rows_per_tile), a multiple of the vector width
    int key_tile;      // keys of a register tile of scores (the stages' kv_subblock)
    int channel_tile;  // channels of a register tile of weighted values
    // Prefill: channels whose values are widened together, a multiple of channel_tile (the stages' widens_by_line); 0: all.
    int line_channels = 0;
    int sum_keys = 0;  // split: the stages' sum_keys
};
// One task is one tile of queries of one head. Lanes are queries. For few and for many queries alike.
void schedule_prefill(SdpaStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &,
                      Halide::Expr value_dim);
ScheduleHints hints_for_prefill(const PrefillParameters &, const SdpaKernel &);
// Prefill's line_channels: the channels of a cache line of values, where values are narrower than weights and the weights of a
// KV block fill much of L1. Widened values of all channels would evict the weights, even more where a value takes a power of
// two of lines, so that values of some keys share sets.
int line_channels_of(const PrefillParameters &, const Halide::Type &value, const Halide::Type &weight);

// Prefill with K and V from beyond L2: while a register tile is computed, the operands of a later one are prefetched, namely
// keys of the next tile of keys and the next cache line of each value.
void fetch_next_tiles(const SdpaStages &, Passes &, const Halide::ImageParam &key, const Halide::ImageParam &value,
                      int channel_tile);

// Prefill with head sizes that the generator knows: during the scores of a task's first KV blocks, queries of the next task are
// prefetched.
void fetch_next_queries(const SdpaStages &, Halide::Func out, Passes &, const Halide::ImageParam &query, int head_dim);

// Prefill and bf16 dot products: while a KV block is scored, the rows of a table over pairs (a bias or a mask) that its steps
// will read are prefetched, where the call gives a table. `name`: the table in steps (ScoreUpdate).
void fetch_tables(const SdpaStages &, Passes &, const Halide::ImageParam &table, const std::string &name,
                  const Halide::Expr &given, const PrefillParameters &);

// schedule_prefill() with bf16 dot products; key_tile is even.
void schedule_bf16_dot(SdpaBf16DotStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &,
                       Halide::Expr value_dim);
ScheduleHints hints_for_bf16_dot(const PrefillParameters &, const SdpaKernel &);

// schedule_prefill() with AMX tiles; tile_q and channel_tile are multiples of the side of a tile, kv_subblock, which stands for
// key_tile, of its depth.
void schedule_amx(SdpaAmxStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &, Halide::Expr value_dim);
ScheduleHints hints_for_amx(const PrefillParameters &, const SdpaKernel &);

struct DecodeParameters {
    int kv_block;       // keys of a partial (the stages' kv_block)
    int row_tile;       // rows of a key head in one pass over K and V (the stages' rows_per_tile)
    int kv_subblock;    // the stages' kv_subblock, a multiple of key_tile, value_block and the vector width; divides kv_block
    int key_tile;       // keys whose scores are computed together
    int value_block;    // keys of V that stay in L1 while all rows use them
    int channel_tile;   // vectors of channels accumulated together
    int value_rows;     // rows accumulated together, divides row_tile; 0: row_tile
    int prefetch_keys;  // distance, in keys, of prefetch (prefetch.h), a multiple of key_tile and value_block; 0: none
};
// One task is one KV block of one key head. Lanes are channels in both products. For at most a few rows: by products of
// numbers, by bf16 dot products, by products of integers.
struct DecodeInputs {
    Halide::ImageParam key, value, row_shift;
    Halide::Expr value_dim;
    Halide::Expr heads_of_task;  // key heads of a task, where rows are in pages; not defined: one
};
void schedule_decode(SdpaStages &, Halide::Func out, Passes &, const DecodeParameters &, const Halide::Target &,
                     const DecodeInputs &);
void schedule_decode(SdpaBf16DotStages &, Halide::Func out, Passes &, const DecodeParameters &, const Halide::Target &,
                     const DecodeInputs &);
void schedule_decode(SdpaInt8Stages &, Halide::Func out, Passes &, const DecodeParameters &, const Halide::Target &,
                     const DecodeInputs &);

ScheduleHints hints_for_decode(const DecodeParameters &, const SdpaKernel &, const Halide::Target &);
// Decode uses bf16 dot products wherever the target gains: where few rows share a key, widening keys is most of the work.
bool decode_takes_bf16_dots(const SdpaKernel &, const Halide::Target &);
// Decode uses products of integers for queries of bf16 over rows of int8; and how the target writes their factors.
bool decode_takes_int8(const SdpaKernel &);
IntegerDigits digits_of_target(const Halide::Target &);

// Decode's channel_group (the stages'); the channels of a group fill a vector, for one head size.
int decode_channel_group(const Halide::Target &, const Halide::Type &accumulator, int head_dim);

// The tasks of decode for more rows: lanes are rows, and each product is prefill's.
void schedule_split(SdpaStages &, Halide::Func out, const PrefillParameters &, const Halide::Target &, Halide::Expr value_dim);
ScheduleHints hints_for_split(const PrefillParameters &, const SdpaKernel &);
// The merge of decode and split: a few reductions over the KV blocks for each row.
void schedule_split_merge(SdpaStages &, Halide::Func out, int lanes);

struct WeightsParameters {
    int kv_block;  // keys whose scores are computed together (the stages' kv_block), a multiple of key_tile
    int tile_q;    // rows of a task (the stages' rows_per_tile), a multiple of the vector width
    int key_tile;  // keys of a register tile of scores
};

// Weights or scores: one task is one tile of queries of one head and holds the scores of all keys. Lanes are queries, and the
// output is transposed in blocks.
void schedule_weights(WeightsStages &, Halide::Func out, const WeightsParameters &, const Halide::Target &);
ScheduleHints hints_for_weights(const WeightsParameters &, const SdpaKernel &);

// Baselines of the benchmarks, never dispatched: schedules that Halide's autoschedulers found for the stages of root, at
// 1x8x1024x1024x64 (scripts/autoschedule).
void schedule_mullapudi2016(const Halide::Pipeline &, const Halide::Target &);
void schedule_adams2019(const Halide::Pipeline &, const Halide::Target &);

// Parts of the schedules above.

// Hints of all schedules by tiles of rows: a tile of tile_q rows, and tables over pairs transposed in blocks as wide as a cache
// line, where the tile and the KV block allow it.
ScheduleHints hints_for_tiles(int tile_q, int kv_block, const SdpaKernel &);
// The side of such blocks where queries are transposed in them, too; else 0.
int query_block_of(int tile_q, int kv_block, const SdpaKernel &);

// Gives a stage of one task, which is a tile of rows of one head, constant extents.
using OneTask = std::function<Halide::Func &(Halide::Func &)>;
OneTask one_task_of(const SdpaStages &, int tile_q);
// Gives a stage of one KV block constant extents.
OneTask one_kv_block_of(const SdpaStages &, int tile_q);

// Schedules with one task for a tile of queries: tasks and merge, returning the loop of out over tasks; and the results of a KV
// block besides the weighted values, in the loop of those over the KV blocks of update `stage`: full ones first, then partial
// ones.
Halide::Var schedule_tasks(SdpaStages &, Halide::Func out, const PrefillParameters &, int lanes, const OneTask &);
// Transposed queries of a task: lanes are rows. In blocks where the stages have these.
void schedule_query(SdpaStages &, const Halide::LoopLevel &task, int lanes, const OneTask &);
void schedule_kv_block_sums(SdpaStages &, int stage, Halide::Stage pv, const Halide::RVar &kv_block, int lanes);
// schedule_tasks() and schedule_kv_block_sums().
struct TileLoops {
    Halide::Var task, channels;  // of out; of block_pv: a step is channel_tile channels
    Halide::Var lines;           // of block_pv: a step is line_channels channels, if set
};
TileLoops schedule_tiles(SdpaStages &, Halide::Func out, const PrefillParameters &, int lanes, const OneTask &);
void require_tiles(const PrefillParameters &, int lanes, Halide::Expr value_dim);

// The scores of one KV block, QK^T included, with queries as lanes; and all its stages. `kv_block` is the loop with one KV
// block per iteration, `channels` the loop that reads a register tile of weighted values; in_blocks: blocks of keys may be left
// out; sum_blocks: number of blocks of keys that are summed before their sum joins the KV block's, 0: no separate sums. Callers
// decide where values are widened.
void schedule_qk_and_scores(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes,
                            const OneTask &);
void schedule_kv_block(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block,
                       const Halide::LoopLevel &channels, bool in_blocks, int lanes, const OneTask &, int sum_blocks = 0);
// The softmax of one KV block; its maxima alone; and its row sum, which gives the Func that adds the weights.
void schedule_softmax(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes, const OneTask &);
void schedule_row_max(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes, const OneTask &);
Halide::Func schedule_row_sum(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes,
                              const OneTask &);
// The scores of one KV block without QK^T, which is computed block by block within the scores. Then the steps of the score, one
// pass each over the scores in L1, skipped as a whole where its option is not given.
void schedule_scores(const SdpaStages &, const KvBlockStages &, const Halide::LoopLevel &kv_block, int lanes, const OneTask &);
// Stages of each query or key alone: small, and computed in full before all others.
void schedule_prepared(const std::vector<Halide::Func> &, int lanes);

}  // namespace attune
