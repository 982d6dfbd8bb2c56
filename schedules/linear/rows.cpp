// SPDX-License-Identifier: MIT
// Few rows: whole blocks of weights pass through registers alone; a block of which the depth block has a part is summed from
// the memory that it was transposed to.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"
#include "schedules/transpose.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

void require_row_parameters(const PanelParameters &parameters, int lanes) {
    constexpr int block_in_order = 8;
    require(lanes >= block_in_order, "the vector width is " + std::to_string(lanes) + ", must be at least " +
                                         std::to_string(block_in_order) + ": LLVM 21 sums smaller blocks in another order");
    require_task(parameters, lanes);
    require_blocks(parameters, lanes);
    require_one_depth_block(parameters);
}

// Blocks of neighbouring columns, `columns` to a vector, are interleaved: the sums of one block wait for each other while the
// next is transposed. within: further loops of a vector.
void schedule_blocks(const RowStages &s, Func partial, const std::vector<BlockSum> &block_sums, const BlockTranspose &transpose,
                     int columns, const std::vector<Var> &within = {}) {
    for (int update = 0; update < int(block_sums.size()); update++) {
        const auto &[term, block] = block_sums[update];
        Stage sums = partial.update(update);
        sums.split(s.n, no, ni, columns).reorder(ni, s.m, term, no, block).vectorize(ni).unroll(s.m).unroll(no);
        for (const Var &v : within) sums.reorder(v, ni).vectorize(v);
        if (update == RowStages::whole_blocks) sums.unroll(term);
    }
    schedule_transpose(transpose, LoopLevel(partial, no));
}

// The sums of depth blocks one after the other, in register tiles of `columns` columns.
void schedule_depth_blocks(RowStages &s, int columns, const PanelParameters &parameters, int lanes) {
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), columns, parameters).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    schedule_blocks(s, s.partial, s.block_sums, s.transpose, lanes);
    schedule_widened_rows(s, s.x_rows, LoopLevel(s.product, s.product_depth_block), parameters, lanes);
}

// The columns of some vectors of sums take a group of depth blocks before the next columns do: their rows of weights are no
// more lines apart than L1 has room for.
void schedule_interleaved_blocks(InterleavedRowStages &s, const PanelParameters &parameters, int lanes) {
    InterleavedRowStages::Group &g = s.group;
    const Var n = s.n, m = s.m, u = s.u, group_mo("group_mo"), column_group("column_group");
    const int depth_blocks = g.depth_blocks, columns = lanes / depth_blocks,
              interleaved_columns = columns * std::max(parameters.interleaved_vectors, 1);
    require_multiple("tile_columns", parameters.tile_columns, "the columns of interleaved vectors", interleaved_columns);
    s.product.update(0)
        .split(m, group_mo, mi, parameters.tile_rows, TailStrategy::RoundUp)
        .split(n, column_group, n, interleaved_columns)
        .reorder(n, mi, g.product_depth_block, column_group, group_mo, g.product_group, s.h, s.b)
        .vectorize(n, interleaved_columns)
        .unroll(mi);
    g.x.compute_at(s.product, group_mo).store_in(MemoryType::Stack);
    g.x.bound(u, 0, depth_blocks)
        .bound_extent(s.k, parameters.depth_block)
        .bound_extent(m, parameters.tile_rows)
        .reorder(u, s.k)
        .vectorize(s.k, depth_blocks)
        .unroll(u);
    in_register_tile(s, g.partial, LoopLevel(s.product, column_group), interleaved_columns, parameters)
        .bound(u, 0, depth_blocks);
    g.partial.split(n, no, ni, columns).reorder(u, ni, no).vectorize(u).vectorize(ni).unroll(no).unroll(m);
    schedule_blocks(s, g.partial, g.block_sums, g.transpose, columns, {u});
}

}  // namespace

void schedule_form(RowStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_row_parameters(parameters, lanes);
    require_no_interleaved_vectors(parameters);
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    split_in_tiles(s, s.product.update(), parameters);
    vectorize_product(s, s.product.update(), lanes);
    schedule_depth_blocks(s, parameters.tile_columns, parameters, lanes);
}

void schedule_form(InterleavedRowStages &s, Func out, const PanelParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_row_parameters(parameters, lanes);
    require_multiple("the vector width", lanes, "interleaved_blocks", s.group.depth_blocks);
    schedule_tasks(s, out, parameters, lanes);
    schedule_sums_of_task(s, out, parameters, lanes);
    schedule_interleaved_blocks(s, parameters, lanes);
    // Vector by vector: the columns of a vector take the depth blocks behind the last group before the next vector.
    Stage product = s.product.update(1);
    split_in_tiles(s, product, parameters);
    product.unroll(mi);
    product.split(s.n, no, s.n, lanes).reorder(s.n, mi, mo, s.product_depth_block, no, s.h, s.b).vectorize(s.n, lanes);
    schedule_depth_blocks(s, lanes, parameters, lanes);
}

}  // namespace attune
