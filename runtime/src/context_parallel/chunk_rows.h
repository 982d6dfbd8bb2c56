// SPDX-License-Identifier: MIT
// Rows of chunks: copies of rows as messages, and the small kernels that convert, merge and sum partial results.
#pragma once
#include "context_parallel/geometry.h"
#include "execution/context_state.h"
#include <vector>

namespace attune {

// Views (.., .., S, ..) of rank 4 whose dimension 2 has a row for each position of a rank, as one message for each chunk.
class ChunkMessage {
public:
    ChunkMessage(const Geometry &geometry, std::vector<ConstView> tensors)
        : geometry_(geometry), tensors_(std::move(tensors)) {}

    std::size_t bytes(std::int64_t chunk) const;
    // Copies the rows of a chunk that this rank holds.
    void pack(std::int64_t chunk, char *memory) const;
    // The rows of a chunk in a message.
    std::vector<ConstView> unpack(std::int64_t chunk, const char *memory) const;
    // The rows of a chunk that this rank holds, where they lie.
    std::vector<ConstView> local(std::int64_t chunk) const;

private:
    std::vector<View> views(std::int64_t chunk, char *memory) const;
    const Geometry &geometry_;
    const std::vector<ConstView> tensors_;
};

// (B, H, S) as (B, H, S, 1), and back.
template<typename Data> BasicView<Data> with_column(BasicView<Data> v) {
    v.rank = 4, v.extent[3] = 1, v.stride[3] = 1;
    return v;
}
template<typename Data> BasicView<Data> without_column(BasicView<Data> v) {
    v.rank = 3;
    return v;
}
template<typename Data> BasicView<Data> rows_of(const BasicView<Data> &v, std::int64_t first, std::int64_t count) {
    return part_of(v, 2, first, count);
}

// Copies elements of views of rank 4 with equal extents and types, as bytes.
void copy_rows(const ConstView &from, const View &to);
// Sets lse (B, H, S): to -inf, or to the sinks (H) of each head.
void fill_lse(const View &lse, const ConstView &sinks);

// to = from, rounded: from 16 bits to f32 or back, (B, H, S, D).
Status convert(Context::State &, const ConstView &from, const View &to);
// Sum of `count` dense parts of `elements` each, of f32 or f64, which lie `distance` elements apart, in their order; to dense
// elements, which may be the first part.
Status sum_parts(Context::State &, const void *parts, DType, std::int64_t count, std::int64_t distance, std::int64_t elements,
                 void *to);
// Whether these kernels are linked in and run here.
Status check_chunk_kernels(Context::State &, DType, bool sums);

}  // namespace attune
