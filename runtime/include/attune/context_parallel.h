// SPDX-License-Identifier: MIT
// Context parallelism: attention over a sequence whose positions are spread over the ranks of a communicator (Ring Attention,
// Liu et al., 2023; Striped Attention, Brandon et al., 2023; all-to-all over heads: DeepSpeed Ulysses, Jacobs et al., 2023).
//
// Positions are cut into chunks, whose size does not depend on the number of ranks. Each chunk of keys gives a partial result
// of each chunk of queries, and partial results are merged in the order of the chunks: so the bits are those of any other
// number of ranks, one included, and of any other layout, where the same variant runs.
#pragma once
#include "attune/communicator.h"
#include "attune/paged.h"
#include "attune/sdpa_backward.h"
#include <cstdint>
#include <vector>

namespace attune {

// Positions [begin, end).
struct PositionRange {
    std::int64_t begin = 0, end = 0;
};

// Which positions a rank holds.
//   contiguous  one range each, of equal numbers of chunks as far as that goes
//   head_tail   with 2 R ranges of chunks, rank r holds ranges r and 2 R - 1 - r: equal work under a causal mask over the call
//   striped     chunk c is that of rank c mod R: equal work under a causal mask at every chunk of keys
//   balanced    one range each, of about equal numbers of pairs of a query and a key that it sees: packed documents, windows
enum class ParallelLayout { contiguous, head_tail, striped, balanced };

// The options that decide which keys a query may see, as in the calls that a plan is made for.
struct ParallelBand {
    Causal causal = Causal::none;  // none or top_left
    Window window = {};
    ConstView cu_seqlens = {};  // packed documents: i32 (D + 1), from 0, never falling, at most the number of positions
};

// Positions of every rank, equal on all ranks. plan_positions() makes it; a caller's own layout is a plan, too, where each
// rank's ranges rise, all ranges together are all positions once, and each begins and ends at a multiple of `chunk` or at the
// last position.
struct ParallelPlan {
    std::int64_t positions = 0, chunk = 0;
    ParallelBand band = {};  // cu_seqlens is not kept: `documents` has its numbers
    std::vector<std::int32_t> documents = {};
    std::vector<std::vector<PositionRange>> of_rank = {};

    // Positions that a rank holds, in their order: the rows of its tensors.
    std::int64_t positions_of(int rank) const {
        std::int64_t all = 0;
        for (const PositionRange &r : of_rank[static_cast<std::size_t>(rank)]) all += r.end - r.begin;
        return all;
    }
};

// Makes a plan. `chunk`: positions of a chunk, 0: 2048. A rank may hold no positions.
ATTUNE_API Status plan_positions(std::int64_t positions, int ranks, ParallelLayout, std::int64_t chunk, const ParallelBand &,
                                 ParallelPlan &) noexcept;

// Sizes of the tensors of all positions.
struct ParallelProblem {
    DType dtype = DType::f32;
    std::int64_t batch = 1, query_heads = 1, key_heads = 1, head_dim = 1, value_dim = 1;
};
enum class ParallelScheme { ring, ring_backward, gathered, heads };
// Rates of one rank, and of a link in one direction. A rank sends one message at a time, and receives one.
struct ParallelMachine {
    double multiply_adds_per_second = 1e11, bytes_per_second = 1e10, seconds_per_message = 5e-6;
};
// A prediction. Bytes are exact: they are the bytes of keys, values, queries and gradients that a call sends, without the
// 512 bytes a rank by which ranks compare their arguments. Seconds come from a simulation, message by message.
struct ParallelForecast {
    std::vector<std::int64_t> bytes_sent = {};  // of each rank
    std::vector<double> compute_seconds = {};   // of each rank
    std::vector<double> waiting_seconds = {};   // of each rank: for keys that have not come
    double seconds = 0;                         // of the last rank
    std::int64_t buffer_bytes = 0;              // of messages, most of a rank
};
ATTUNE_API Status forecast_parallel(const ParallelPlan &, const ParallelProblem &, ParallelScheme, const ParallelMachine &,
                                    ParallelForecast &) noexcept;

// Figures of one call.
struct ParallelReport {
    std::int64_t bytes_sent = 0;  // by this rank, as ParallelForecast::bytes_sent
    double seconds = 0;           // of the call
    double waiting_seconds = 0;   // in which this rank waited for messages
};

struct ParallelOptions {
    // Options of all positions together. Causal::top_left and bottom_right are the same, and must be the plan's, as the window.
    // mask and bias have rows of this rank's positions and columns of all positions, or extents of 1; valid_lens counts all
    // positions, (B). lse is this rank's. Dropout counts positions of the plan; with packed documents those of the document,
    // whose number is its batch entry. Refused: weights, offset, offsets, cache_lens and Score::general; dropout in decoding.
    SdpaOptions attention = {};
    ParallelReport *report = nullptr;
};

// Attention of this rank's queries over the keys of all ranks.
//
//   query (B, Hq, S, Dk)   key (B, Hkv, S, Dk)   value (B, Hkv, S, Dv)   out (B, Hq, S, Dv)   lse (B, Hq, S)
//   S = plan.positions_of(rank): rows in the order of their positions. With packed documents B is 1.
//
// Collective: every rank calls, with its own tensors and otherwise equal arguments. Ranks first compare sizes, options and the
// order of calls: where they disagree, or one rank's arguments are refused, every rank gets an error that says so, and nothing
// is written. Types and layouts as scaled_dot_product_attention, on the host. Partial results are rounded to the type, and
// merged in f32 (f64). Status `communication` where the communicator fails; outputs may then be written in part, and later
// calls with the same communicator are not defined.
//
// Chunks of keys and values travel along the ring in the order of their positions, past the ranks whose queries see none of
// their keys, while a rank computes with chunks that came before: a rank holds a few chunks of messages beside its tensors.
// With one rank there is no message, and the communicator needs no callbacks.
ATTUNE_API Status ring_attention(Context &, const Communicator &, const ParallelPlan &, const ConstView &query,
                                 const ConstView &key, const ConstView &value, const View &out,
                                 const ParallelOptions & = {}) noexcept;

// Gradients of any of these functions. In one pass chunks of keys and values travel, and give the gradients of this rank's
// queries; in another chunks of queries, outputs and their gradients, and give those of its keys and values, so that each sum
// is in the order of positions. One rank alone needs one pass. Gradients by query, key, value, sinks, ALiBi's slopes and
// bias may be given: the gradients of sinks and slopes are of all ranks, on each; that of a bias, of this rank's rows, where
// the bias has a row of its own for each query and a column for each position.
ATTUNE_API Status ring_attention_backward(Context &, const Communicator &, const ParallelPlan &, const ConstView &query,
                                          const ConstView &key, const ConstView &value, const SdpaForward &,
                                          const SdpaGradients &, const ParallelOptions & = {}) noexcept;

// The same result by another way: all keys and values that this rank's queries may see come first (all-gather), then it
// computes. Fewer and larger messages; memory of all keys. For few key heads, short sequences, and windows.
ATTUNE_API Status gathered_attention(Context &, const Communicator &, const ParallelPlan &, const ConstView &query,
                                     const ConstView &key, const ConstView &value, const View &out,
                                     const ParallelOptions & = {}) noexcept;

// The same result by a third way: an all-to-all gives each rank all positions of some heads, and another brings the results
// back. Hkv must be a multiple of the number of ranks. mask, bias and ALiBi's slopes are refused.
ATTUNE_API Status head_parallel_attention(Context &, const Communicator &, const ParallelPlan &, const ConstView &query,
                                          const ConstView &key, const ConstView &value, const View &out,
                                          const ParallelOptions & = {}) noexcept;

// Attention of few queries, the same on every rank, over caches whose positions are spread over the ranks.
//
//   query (B, Hq, Sq, Dk)   key (B, Hkv, S, Dk)   value (B, Hkv, S, Dv)   out (B, Hq, Sq, Dv), the same on every rank
//   plan: its positions are the capacity of the caches, and S = plan.positions_of(rank) those of this rank
//
// valid_lens, (B), are the rows that the caches hold, at their first positions, the Sq queries' own included; not given: all.
// Query i stands at position valid_lens[b] - Sq + i, and options.causal and window count from there. Each chunk's partial
// result goes to all ranks (all-gather), and is merged there in the order of positions. The plan's band is not used.
ATTUNE_API Status sharded_decode(Context &, const Communicator &, const ParallelPlan &, const ConstView &query,
                                 const ConstView &key, const ConstView &value, const View &out,
                                 const ParallelOptions & = {}) noexcept;

// The same over pages, of one query of each sequence, which sees all rows that its sequence holds.
//
//   query (B, Hq, Dk)   out (B, Hq, Dv)   lse (Hq, B)   lens i32 (B): rows of a sequence on all ranks, at most plan.positions
//   key_pages, value_pages: pool.h, this rank's own, with `page` rows a page, of which plan.chunk is a multiple
//   block_table i32 (B, N): row r of this rank's positions lies in page block_table[b, r / page]
//
// Options scale, softcap, sinks, lse, invariant and variant are taken; others are refused, and causal makes no
// difference. The bits are those of any number of ranks, and not those of sharded_decode.
ATTUNE_API Status sharded_paged_decode(Context &, const Communicator &, const ParallelPlan &, const ConstView &query,
                                       const ConstPages &key_pages, const ConstPages &value_pages, const ConstView &block_table,
                                       const ConstView &lens, const View &out, const PagedOptions & = {},
                                       ParallelReport * = nullptr) noexcept;

}  // namespace attune
