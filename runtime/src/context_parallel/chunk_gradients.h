// SPDX-License-Identifier: MIT
// Gradients of a rank's queries, or of its keys and values, summed over chunks in their order.
#pragma once
#include "context_parallel/chunk_attention.h"
#include "tensors/checks.h"
#include <deque>

namespace attune {

// Rows of queries of one chunk, and all that belongs to them: views of rank 4, lse with a column; or not given.
struct QueryRows {
    ConstView query, out, grad_out, lse, grad_lse, mask, bias;
};
struct KeyRows {
    ConstView key, value;
};

// Accumulators of some chunks of one tensor's gradient, in f32 or f64: a dense (B, H, chunk, D) each, and a part.
class GradientSum {
public:
    // `tensor`: the rows of this rank; none is wanted where the gradient is not given.
    GradientSum(const Geometry &geometry, int rank, const ConstView &tensor, const View &gradient, std::int64_t chunk)
        : geometry_(geometry), rank_(rank), tensor_(tensor), gradient_(gradient), chunk_(chunk) {}

    Status begin(Context::State &);
    // Where the next part of this rank's n-th chunk is written, in the tensor's type; zeros where it is not written.
    View part(std::size_t n, bool written_in_whole);
    Status add(std::size_t n);
    // Writes the gradient, zeros for chunks without parts.
    Status end();

private:
    View slot(std::size_t n, std::int64_t rows) const;
    bool wanted() const { return gradient_.given(); }

    const Geometry &geometry_;
    const int rank_;
    const ConstView tensor_;
    const View gradient_;
    const std::int64_t chunk_;
    Context::State *context_ = nullptr;
    std::int64_t elements_ = 0;  // of a slot
    std::optional<ScratchBlock> memory_;
    std::vector<char> begun_;
    View narrow_;  // a part of 16-bit type
};

// Sums of the gradient by a table that any pair may read, ALiBi's slopes or a user's capture, in f32 or f64: one sum for each
// chunk of queries of this rank. The sum over all ranks adds these sums in the order of the chunks, and so has the same bits
// for any number of ranks.
class TableSum {
public:
    // None is wanted where the gradient is not given.
    TableSum(const Geometry &geometry, int rank, const View &gradient)
        : chunks_(geometry.chunks_of(rank).size()), gradient_(gradient) {}

    Status begin(Context::State &);
    // The gradient of the next pair of this rank's n-th chunk is written to part(), dense, then added.
    View part() const;
    Status add(std::size_t n);
    bool wanted() const { return gradient_.given(); }
    std::int64_t elements() const { return elements_of(gradient_); }
    const View &gradient() const { return gradient_; }
    // The sums of all chunks, each dense.
    const char *sums() const { return static_cast<const char *>(memory_->data()); }

private:
    char *slot(std::size_t n) const {
        return static_cast<char *>(memory_->data()) + static_cast<std::int64_t>(n) * elements() * size_of(gradient_.dtype);
    }

    const std::size_t chunks_;
    const View gradient_;
    Context::State *context_ = nullptr;
    std::optional<ScratchBlock> memory_;  // the sums, then a part
};

// The gradients of one pair of chunks; views that are not given are not wanted. `query` and `key` are their first positions.
struct PairGradients {
    View query, key, value;
    View bias = {};  // rank 4: rows of the chunk of queries, columns of all positions
    TableSum *slopes = nullptr;
    std::deque<TableSum> *captures = nullptr;  // one for each capture of a user's attention
    std::size_t own_queries = 0;  // the number of the chunk of queries among those of this rank, for slopes and captures
};
Status pair_gradients(Context &, const Geometry &, const RankCall &, std::int64_t of_queries, const QueryRows &,
                      std::int64_t of_keys, const KeyRows &, const PairGradients &);

}  // namespace attune
