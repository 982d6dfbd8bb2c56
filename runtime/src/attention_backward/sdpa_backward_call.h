// SPDX-License-Identifier: MIT
// A checked call of the gradients of attention, and its kernels.
#pragma once
#include "attention/sdpa_arguments.h"
#include "attune/sdpa_backward.h"

namespace attune {

struct TableGradientArguments;
struct CaptureGradientArguments;

struct BackwardCall {
    SdpaCall forward;                     // out is an input here
    Op capture_op;                        // op of the gradients of bias and slopes
    ConstView lse, grad_lse;              // (B, Hq, Sq); grad_lse may be not given
    ConstView grad_out;                   // (B, Hq, Sq, Dv)
    View query, key, value;               // gradients of rank 4; each may be not given
    View bias, alibi_slopes, sinks;       // as the caller gave them
    View pair_weight;                     // for additive scores: (h)
    std::span<const View> user_captures;  // one per capture of a user's attention; may be not given
};

// Terms of each query for the kernels: lse in base 2 and sum(out grad_out) - grad_lse; (B, Hq, Sq), f64 for f64, else f32.
struct BackwardRows {
    View lse, delta;
};

// Checks everything but the score and overlaps, in the order of the arguments, and fills `call` but for op, scale and pair.
Status check_backward(const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &,
                      const SdpaGradients &, const SdpaOptions &, BackwardCall &call);
// Checks the same for scaled_dot_product_attention_backward(), overlaps included.
Status check_sdpa_backward(const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &,
                           const SdpaGradients &, const SdpaOptions &, BackwardCall &call);
// Sets the ops of the gradients of a score.
void set_backward_ops(Score, BackwardCall &);
std::vector<NamedView> named_backward_inputs(const ConstView &query, const ConstView &key, const ConstView &value,
                                             const SdpaForward &, const SdpaOptions &);
// Checks that a gradient has the rank, type and extents of its tensor; the second also that it is dense, and gives rank 4.
Status check_gradient(std::string_view name, const View &gradient, std::string_view of, const ConstView &tensor, DType type);
Status check_tensor_gradient(std::string_view name, const View &gradient, std::string_view of, const ConstView &tensor,
                             View &as4);

struct BackwardChoice {
    Choice tiles, rows, sinks;
    bool bias_with_tiles = false;                     // the gradient of bias is dS of each pair, which the tiles compute
    Choice captures, bias_sum, slope_sum;             // otherwise, where a gradient of bias or slopes is wanted
    Choice user_captures, user_sum, user_sum_of_f64;  // for a user's captures; sums to f32 and to f64
};
// Whether a kernel of tiles writes the gradient of bias.
bool gives_bias(OpId, const VariantRecord &);
Status choose_backward(const Context::State &, const BackwardCall &, std::string_view variant, BackwardChoice &);

// Runs the kernels of the choice. A result that needs no kernel is written here, and choice.tiles then gives the reason.
// At most `threads` threads are used: one in a task, which has no more.
Status run_backward(Context &, const BackwardCall &, BackwardChoice &, int threads);

// Arguments common to all kernels of a call.
struct BackwardShared {
    const BackwardCall &call;
    BackwardRows rows;
    ConstView grad_out, lengths, bias, mask;
    LengthBounds bounds;  // for tiles of the kernels' number of queries
    ConstView blocks;     // (B, Hq, tiles, tiles): blocks of a user's mask, for these tiles
};

// A task: tiles of queries and keys of one key head of one batch entry, of some of its query heads, for some of the gradients.
struct TileTask {
    std::int64_t entry, key_head, first_head, heads;  // first_head counts within the group
    std::int64_t first_query_tile, query_tiles, first_key_tile, key_tiles;
    bool query, key, bias;
    bool checks_captures = false;  // checks bounds and computes nothing: sdpa_backward_kernel.cpp
};
std::vector<TileTask> tasks_of(const BackwardCall &, const BackwardChoice &, int threads);

// A range of tiles of queries or of keys.
struct TileRange {
    std::int64_t first, count;
};
// Tiles of keys that the band of a batch entry leaves to some queries; tiles of queries that it leaves to some keys. At least
// one tile.
TileRange keys_seen_by(const SdpaCall &, const VariantRecord &, std::int64_t entry, const TileRange &queries);
TileRange queries_that_see(const SdpaCall &, const VariantRecord &, std::int64_t entry, const TileRange &keys);
// Most tiles of a task where a window leaves few keys to a query; else all tiles.
std::int64_t tiles_of_a_part(const SdpaCall &, const VariantRecord &);

// Runs one kernel for a task: the gradient of a table of the score, or of a user's capture.
Status run_tiles(Context::State &, const BackwardShared &, const VariantRecord &, const TileTask &,
                 const TableGradientArguments &own);
Status run_tiles(Context::State &, const BackwardShared &, const VariantRecord &, const TileTask &,
                 const CaptureGradientArguments &own);

// The gradients of bias and slopes.
Status run_captures(Context::State &, const BackwardShared &, const BackwardChoice &, int threads);

// The gradients of the captures of a user's attention.
Status choose_user_captures(const BackwardCall &, BackwardChoice &);
Status run_user_captures(Context::State &, const BackwardShared &, const BackwardChoice &, int threads);

}  // namespace attune
