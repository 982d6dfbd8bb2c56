// SPDX-License-Identifier: MIT
// SIMT schedule: a block computes a tile of the result. Tiles of x and of the weight are copied to shared memory, the depth
// outermost, so that a lane reads neighbouring operands; its sums stay in registers from the first product to the last.
#include "lowering/require.h"
#include "schedules/linear/simt_schedules.h"

namespace attune {
using namespace Halide;

namespace {

// Neighbouring columns that a lane reads together, 16 bytes. Its next columns follow those of all lanes: so neighbouring lanes
// read without gaps and without bank conflicts.
constexpr int columns_together = 4;

struct InBlock {
    LinearSimtStages &s;
    const LinearSimtParameters &parameters;

    int row_lanes() const { return parameters.tile_rows / parameters.lane_rows; }
    int column_lanes() const { return parameters.tile_columns / parameters.lane_columns; }

    // Rows and columns of a tile, distributed to lanes; `within` are loops of each lane around them, `around` loops around the
    // lanes.
    void deal(Stage f, const Var &column, const Var &row, const std::vector<VarOrRVar> &within = {},
              const std::vector<VarOrRVar> &around = {}) const {
        Var far("far"), near("near"), lane("lane"), row_lane("row_lane"), own("own");
        f.split(column, far, near, columns_together * column_lanes())
            .split(near, lane, near, columns_together)
            .split(row, row_lane, own, parameters.lane_rows);
        std::vector<VarOrRVar> order = {near, far, own};
        order.insert(order.end(), within.begin(), within.end());
        order.insert(order.end(), {lane, row_lane});
        order.insert(order.end(), around.begin(), around.end());
        f.reorder(order).gpu_threads(lane, row_lane).unroll(near).unroll(far).unroll(own).never_partition_all();
    }

    // A tile of an operand: neighbouring lanes read along the depth, as in memory, and write to shared memory transposed.
    void staged(Func f, const Var &across, int extent) const {
        constexpr int gap = 4;  // words between rows of shared memory, which stay aligned to 16 bytes
        Var all("all"), rest("rest"), lane("lane"), row_lane("row_lane");
        f.compute_at(s.product, s.tile).store_in(MemoryType::GPUShared);
        for (const Var &v : f.args())
            f.bound_extent(v, v.name() == across.name() ? extent : v.name() == s.k.name() ? parameters.tile_depth : 1);
        f.align_storage(across, extent + gap)
            .reorder(s.k, across)
            .fuse(s.k, across, all)
            .split(all, all, lane, column_lanes())
            .split(all, rest, row_lane, row_lanes())
            .reorder(rest, lane, row_lane)
            .unroll(rest)
            .gpu_threads(lane, row_lane);
    }
};

}  // namespace

void schedule_linear_simt(LinearSimtStages &s, Func out, const LinearSimtParameters &parameters) {
    const InBlock block{s, parameters};
    require_multiple("tile_rows", parameters.tile_rows, "lane_rows", parameters.lane_rows);
    require_multiple("tile_columns", parameters.tile_columns, "lane_columns", parameters.lane_columns);
    require_multiple("lane_columns", parameters.lane_columns, "the columns that a lane reads together", columns_together);
    for (const int across : {parameters.tile_rows, parameters.tile_columns})
        require_multiple("a tile", across * parameters.tile_depth, "the lanes of a block",
                         block.row_lanes() * block.column_lanes());

    Var column("column"), row("row"), column_tile("column_tile"), row_tile("row_tile"), entry("entry");
    out.split(s.n, column_tile, column, parameters.tile_columns, TailStrategy::GuardWithIf)
        .split(s.m, row_tile, row, parameters.tile_rows, TailStrategy::GuardWithIf)
        .fuse(s.h, s.b, entry)
        .reorder(column, row, row_tile, column_tile, entry)
        .gpu_blocks(row_tile, column_tile, entry);
    block.deal(out, column, row);

    Func product = s.product;
    product.compute_at(out, row_tile).store_in(MemoryType::Register);
    for (const Var &v : {s.h, s.b}) product.bound_extent(v, 1);
    product.bound_extent(s.n, parameters.tile_columns).bound_extent(s.m, parameters.tile_rows);
    block.deal(product, s.n, s.m);
    block.deal(product.update(), s.n, s.m, {s.tile_k}, {s.tile});
    product.update().unroll(s.tile_k);
    block.staged(s.x_tile, s.m, parameters.tile_rows);
    block.staged(s.weight_tile, s.n, parameters.tile_columns);
}

}  // namespace attune
