// SPDX-License-Identifier: MIT
// Few rows: whole blocks of weights go through registers alone; one of which the chunk has a part is summed from where it was
// transposed.
#include "lowering/require.h"
#include "schedules/linear/linear_tasks.h"
#include "schedules/transpose.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using namespace linear_loops;

namespace {

void require_row_numbers(const PanelTuning &tuning, int lanes) {
    constexpr int block_in_order = 8;
    require(lanes >= block_in_order, "the vector width is " + std::to_string(lanes) + ", must be at least " +
                                         std::to_string(block_in_order) + ": LLVM 21 sums smaller blocks in another order");
    require_task(tuning, lanes);
    require_blocks(tuning, lanes);
    require_one_chunk(tuning);
}

// Blocks of neighbouring columns, `columns` of them to a vector, take turns: the sums of one wait for each other while the next
// is transposed. within: the loops that are in a vector besides.
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

// The sums of chunks one after the other, in register tiles of so many columns.
void schedule_chunks(RowStages &s, int columns, const PanelTuning &tuning, int lanes) {
    in_register_tile(s, s.partial, LoopLevel(s.product, mo), columns, tuning).vectorize(s.n, lanes).unroll(s.n).unroll(s.m);
    schedule_blocks(s, s.partial, s.block_sums, s.transpose, lanes);
    if (s.x_rows.defined()) s.x_rows.compute_at(s.product, s.product_chunk).vectorize(s.k, lanes, TailStrategy::RoundUp);
}

// The columns of some vectors of sums take a group of chunks before the next ones do: rows of weights that lie apart by no more
// lines than a first cache has room for.
void schedule_interleaved_chunks(InterleavedRowStages &s, const PanelTuning &tuning, int lanes) {
    InterleavedRowStages::Group &g = s.group;
    const Var n = s.n, m = s.m, u = s.u, group_mo("group_mo"), pass("pass");
    const int chunks = g.chunks, columns = lanes / chunks, columns_of_pass = columns * std::max(tuning.turns, 1);
    require_multiple("tile_columns", tuning.tile_columns, "the columns that take turns", columns_of_pass);
    s.product.update(0)
        .split(m, group_mo, mi, tuning.tile_rows, TailStrategy::RoundUp)
        .split(n, pass, n, columns_of_pass)
        .reorder(n, mi, g.product_chunk, pass, group_mo, g.product_group, s.h, s.b)
        .vectorize(n, columns_of_pass)
        .unroll(mi);
    g.x.compute_at(s.product, group_mo).store_in(MemoryType::Stack);
    g.x.bound(u, 0, chunks)
        .bound_extent(s.k, tuning.chunk)
        .bound_extent(m, tuning.tile_rows)
        .reorder(u, s.k)
        .vectorize(s.k, chunks)
        .unroll(u);
    in_register_tile(s, g.partial, LoopLevel(s.product, pass), columns_of_pass, tuning).bound(u, 0, chunks);
    g.partial.split(n, no, ni, columns).reorder(u, ni, no).vectorize(u).vectorize(ni).unroll(no).unroll(m);
    schedule_blocks(s, g.partial, g.block_sums, g.transpose, columns, {u});
}

}  // namespace

void schedule_form(RowStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_row_numbers(tuning, lanes);
    require_no_turns(tuning);
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    split_in_tiles(s, s.product.update(), tuning);
    vectorize_product(s, s.product.update(), lanes);
    schedule_chunks(s, tuning.tile_columns, tuning, lanes);
}

void schedule_form(InterleavedRowStages &s, Func out, const PanelTuning &tuning, const Target &target) {
    const int lanes = target.natural_vector_size(s.product.type());
    require_row_numbers(tuning, lanes);
    require_multiple("the vector width", lanes, "abreast", s.group.chunks);
    schedule_tasks(s, out, tuning, lanes);
    schedule_sums_of_task(s, out, tuning, lanes);
    schedule_interleaved_chunks(s, tuning, lanes);
    // Vector by vector: the columns of one take the chunks behind the last group before the next.
    Stage product = s.product.update(1);
    split_in_tiles(s, product, tuning);
    product.unroll(mi);
    product.split(s.n, no, s.n, lanes).reorder(s.n, mi, mo, s.product_chunk, no, s.h, s.b).vectorize(s.n, lanes);
    schedule_chunks(s, lanes, tuning, lanes);
}

}  // namespace attune
