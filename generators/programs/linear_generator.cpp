// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "generators/linear/packed_panels.h"
#include "generators/math/accumulator.h"
#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/amx_tiles.h"
#include "schedules/linear/linear_schedules.h"
#include "schedules/transpose.h"

namespace {
enum class Schedule { root, panels, bf16_dot, amx, amx_gemv };

class Linear : public Halide::Generator<Linear> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule",
                                           Schedule::root,
                                           {{"root", Schedule::root},
                                            {"panels", Schedule::panels},
                                            {"bf16_dot", Schedule::bf16_dot},
                                            {"amx", Schedule::amx},
                                            {"amx_gemv", Schedule::amx_gemv}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> depth_block{"depth_block", 256, 1, 1 << 20};
    GeneratorParam<int> task_rows{"task_rows", 0, 0, 1 << 20};
    GeneratorParam<int> tile_rows{"tile_rows", 0, 0, 64};
    GeneratorParam<int> tile_columns{"tile_columns", 0, 0, 1024};
    GeneratorParam<int> block{"block", 0, 0, 64};
    GeneratorParam<int> tile_depth_blocks{"tile_depth_blocks", 1, 0, 1 << 20};
    GeneratorParam<int> accumulators{"accumulators", 1, 1, 16};               // accumulators of pairs
    GeneratorParam<int> interleaved_blocks{"interleaved_blocks", 1, 1, 16};   // interleaved depth blocks, of few rows
    GeneratorParam<int> interleaved_vectors{"interleaved_vectors", 0, 0, 4};  // PanelParameters
    GeneratorParam<int> prefetch_depth{"prefetch_depth", 0, 0, 1024};
    GeneratorParam<int> prefetch_runs{"prefetch_runs", 0, 0, 1};  // WeightPrefetch
    GeneratorParam<int> full_tiles{"full_tiles", 0, 0, 1};        // 1: columns and depths fill AMX tiles, read as they lie
    GeneratorParam<int> few_rows{"few_rows", 0, 0, 1};            // 1: weights are not packed for a tile of several rows
    GeneratorParam<bool> packed{"packed", false};                 // whether the weight is

    Input<Buffer<void, 4>> x{"x"};        // (k, m, h, b)
    Input<Buffer<>> weight{"weight"};     // (k, n), or packed_panels.h; of whole tiles, panels follow each other along k
    Input<Buffer<void, 1>> bias{"bias"};  // (n), any stride
    Input<int> ahead{"ahead"};            // LinearInputs
    Input<int> task_tiles{"task_tiles"};  // PanelParameters
    Output<Buffer<void, 4>> out{"out"};   // (n, m, h, b)

    void configure() {
        x.set_type(dtype), weight.set_type(dtype), bias.set_type(dtype), out.set_type(dtype);
        weight.set_dimensions(packed && full_tiles == 0 ? 3 : 2);
    }

    void generate() {
        attune::LinearInputs in;
        in.x = x, in.bias = bias;
        const attune::PackedPanels panels{dtype};
        in.weight = [=, this](Expr n, Expr k, Expr, Expr) { return packed ? weight(panels.place(n, k)) : weight(k, n); };
        in.as_it_lies = packed || full_tiles == 1;
        if (packed && full_tiles == 1)
            in.pair_of_panel = [this](Expr e, Expr column, Expr k, Expr panel) {
                const Expr pairs = x.dim(0).extent() / 2, last = (bias.dim(0).extent() - 1) / attune::PackedPanels::columns;
                return weight(column * 2 + e, min(panel, last) * pairs + k);  // tasks of some panels reach beyond the last one
            };
        in.rows = x.dim(1).extent(), in.depth = x.dim(0).extent();
        in.columns = packed ? bias.dim(0).extent() : weight.dim(1).extent();
        in.ahead = ahead;
        form = form_of(in, {.type = attune::accumulator_of(dtype),
                            .depth_block = depth_block,
                            .block = packed ? 0 : block,
                            .accumulators = accumulators,
                            .interleaved_blocks = interleaved_blocks});
        out = std::visit([](const auto &stages) { return stages.out; }, form);
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0), out.dim(n).set_min(0);
        for (int n = 0; n < weight.dimensions(); n++) weight.dim(n).set_min(0);
        bias.dim(0).set_min(0).set_stride(Halide::Expr());
        if (packed) weight.dim(0).set_bounds(0, attune::PackedPanels{dtype}.width());
        const attune::PanelParameters parameters = {depth_block,       task_rows,    tile_rows,           tile_columns, block,
                                                    tile_depth_blocks, accumulators, interleaved_vectors, task_tiles};
        std::visit([&](auto &stages) { schedule_stages(stages, parameters); }, form);
        const bool amx = schedule_name == Schedule::amx;
        attune::Passes passes{
            .join_amx_tiles = amx,
            // Rows of a tile are in L1, where they were just written; weights of a whole depth would evict these rows.
            .load_tiles_past_l1 = amx && tile_depth_blocks == 0,
            .whole_vectors = true,
            .masked_tail_loads = {x, weight}};
        const attune::WeightPrefetch prefetch{weight, prefetch_depth, prefetch_runs == 1};
        std::visit([&](auto &stages) { attune::prefetch_weights(stages, out, passes, parameters, prefetch); }, form);
        attune::lower(get_pipeline(), passes, target);
        if (packed && full_tiles == 1)
            attune::require_multiple("tile_columns", tile_columns, "a packed weight's panel", attune::PackedPanels::columns);
        else if (packed && schedule_name != Schedule::root)
            attune::require_multiple("a packed weight's panel", attune::PackedPanels::columns, "tile_columns", tile_columns);
    }

private:
    attune::LinearForm form;

    // One row, or a few, use weights as they are loaded to registers: no other row reads them.
    attune::LinearForm form_of(const attune::LinearInputs &in, const attune::LinearShape &shape) const {
        const bool for_few_rows = (tile_rows == 1 || few_rows == 1) && !packed, several = shape.accumulators > 1;
        require_form(for_few_rows);
        if (schedule_name == Schedule::amx) return attune::linear_amx_stages(in, shape, attune::amx_tile_depth);
        if (schedule_name == Schedule::amx_gemv) return attune::linear_amx_weight_stages(in, shape, attune::amx_tile_depth);
        if (schedule_name == Schedule::bf16_dot) {
            const bool by_lines = shape.block > shape.accumulators;
            if (for_few_rows && by_lines) return attune::linear_bf16_dot_line_stages(in, shape);
            if (for_few_rows) return attune::linear_bf16_dot_row_stages(in, shape);
            if (several && tile_depth_blocks == 0) return attune::linear_bf16_dot_epilogue_stages(in, shape);
            return attune::linear_bf16_dot_panel_stages(in, shape);
        }
        if (for_few_rows && block > 0 && schedule_name == Schedule::panels) {
            if (shape.interleaved_blocks > 1) return attune::linear_interleaved_row_stages(in, shape);
            return attune::linear_row_stages(in, shape);
        }
        if (!several) return attune::linear_panel_stages(in, shape);
        if (for_few_rows) return attune::linear_widened_row_stages(in, shape);
        return attune::linear_widened_panel_stages(in, shape);
    }
    void require_form(bool for_few_rows) const {
        const bool in_bf16_dot = schedule_name == Schedule::bf16_dot, in_panels = schedule_name == Schedule::panels;
        attune::require(interleaved_blocks == 1 || (for_few_rows && block > 0 && (in_panels || in_bf16_dot)),
                        "interleaved depth blocks are for few rows, by blocks");
        attune::require(accumulators == 1 || in_bf16_dot || (in_panels && Halide::Type(dtype).is_bfloat()),
                        "accumulators are for bf16_dot, and for panels of bf16");
        attune::require(accumulators == 1 || in_bf16_dot || !for_few_rows || block == 0,
                        "accumulators of few rows by blocks are for bf16_dot");
        attune::require(full_tiles == 0 || schedule_name == Schedule::amx_gemv || (packed && schedule_name == Schedule::amx),
                        "full_tiles is for amx_gemv, and for amx of packed weights");
    }

    void schedule_stages(attune::PanelStages &stages, const attune::PanelParameters &parameters) {
        if (schedule_name == Schedule::root)
            attune::schedule_root(stages, out);
        else
            attune::schedule_form(stages, out, parameters, target);
    }
    void schedule_stages(auto &stages, const attune::PanelParameters &parameters) {
        attune::schedule_form(stages, out, parameters, target);
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Linear, linear)
