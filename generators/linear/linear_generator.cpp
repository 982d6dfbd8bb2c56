// Wiring only: parameters, inputs, outputs.
#include "generators/linear/packed_panels.h"
#include "generators/math/accumulator.h"
#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/linear/linear_schedules.h"
#include "schedules/matrix_tiles.h"
#include "schedules/transpose.h"

namespace {
enum class Schedule { root, panels, pairs, tiles, weight_tiles };

class Linear : public Halide::Generator<Linear> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule",
                                           Schedule::root,
                                           {{"root", Schedule::root},
                                            {"panels", Schedule::panels},
                                            {"pairs", Schedule::pairs},
                                            {"tiles", Schedule::tiles},
                                            {"weight_tiles", Schedule::weight_tiles}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> chunk{"chunk", 256, 1, 1 << 20};
    GeneratorParam<int> task_rows{"task_rows", 0, 0, 1 << 20};
    GeneratorParam<int> tile_rows{"tile_rows", 0, 0, 64};
    GeneratorParam<int> tile_columns{"tile_columns", 0, 0, 1024};
    GeneratorParam<int> block{"block", 0, 0, 64};
    GeneratorParam<int> tile_chunks{"tile_chunks", 1, 0, 1 << 20};
    GeneratorParam<int> strands{"strands", 1, 1, 16};  // of pairs
    GeneratorParam<int> abreast{"abreast", 1, 1, 16};  // chunks, of few rows
    GeneratorParam<int> turns{"turns", 0, 0, 4};       // PanelTuning
    GeneratorParam<int> prefetch_depth{"prefetch_depth", 0, 0, 1024};
    GeneratorParam<int> prefetch_runs{"prefetch_runs", 0, 0, 1};  // fetch_weights_ahead
    GeneratorParam<int> whole{"whole", 0, 0, 1};   // 1: for columns and depths that fill matrix tiles, read as they lie
    GeneratorParam<int> few{"few", 0, 0, 1};       // 1: weights are not packed for a tile of several rows, as for one row
    GeneratorParam<bool> packed{"packed", false};  // the weight

    Input<Buffer<void, 4>> x{"x"};        // (k, m, h, b)
    Input<Buffer<>> weight{"weight"};     // (k, n), or packed_panels.h
    Input<Buffer<void, 1>> bias{"bias"};  // (n), any stride
    Input<int> ahead{"ahead"};            // LinearInputs
    Input<int> task_tiles{"task_tiles"};  // PanelTuning
    Output<Buffer<void, 4>> out{"out"};   // (n, m, h, b)

    void configure() {
        x.set_type(dtype), weight.set_type(dtype), bias.set_type(dtype), out.set_type(dtype);
        weight.set_dimensions(packed ? 3 : 2);
    }

    void generate() {
        attune::LinearInputs in;
        in.x = x, in.bias = bias;
        const attune::PackedPanels panels{dtype};
        in.weight = [=, this](Expr n, Expr k, Expr, Expr) { return packed ? weight(panels.place(n, k)) : weight(k, n); };
        in.as_it_lies = packed || whole == 1;
        in.rows = x.dim(1).extent(), in.depth = x.dim(0).extent();
        in.columns = packed ? bias.dim(0).extent() : weight.dim(1).extent();
        in.ahead = ahead;
        // One row, or a few, take weights from registers, as they come from memory: no other row wants them.
        const bool in_pairs = schedule_name == Schedule::pairs, few_rows = (tile_rows == 1 || few == 1) && !packed;
        const bool in_panels = schedule_name == Schedule::panels;
        const bool block_by_block = few_rows && in_panels && block > 0;
        attune::require(abreast == 1 || (few_rows && block > 0 && (in_panels || in_pairs)),
                        "chunks abreast are for few rows, by blocks");
        const attune::LinearShape shape{.type = attune::accumulator_of(dtype),
                                        .chunk = chunk,
                                        .block = packed ? 0 : block,
                                        .strands = strands,
                                        .widened = in_panels,
                                        .abreast = abreast,
                                        .last_apart = in_pairs && !few_rows && strands > 1 && tile_chunks == 0};
        stages = block_by_block                          ? attune::linear_block_stages(in, shape)
                 : few_rows && (in_pairs || strands > 1) ? attune::linear_pair_row_stages(in, shape)
                 : in_pairs                              ? attune::linear_pair_stages(in, shape)
                 : schedule_name == Schedule::tiles      ? attune::linear_tile_stages(in, shape, attune::matrix_tile_depth)
                 : schedule_name == Schedule::weight_tiles
                     ? attune::linear_weight_tile_stages(in, shape, attune::matrix_tile_depth)
                     : attune::linear_stages(in, shape);
        out = stages.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0), out.dim(n).set_min(0);
        for (int n = 0; n < weight.dimensions(); n++) weight.dim(n).set_min(0);
        bias.dim(0).set_min(0).set_stride(Halide::Expr());
        if (packed) weight.dim(0).set_bounds(0, attune::PackedPanels{dtype}.width());
        attune::require(strands == 1 || schedule_name == Schedule::pairs ||
                            (schedule_name == Schedule::panels && Halide::Type(dtype).is_bfloat()),
                        "strands are for pairs, and for panels of bf16");
        attune::require(whole == 0 || schedule_name == Schedule::weight_tiles, "whole is for weight_tiles");
        const attune::PanelTuning tuning = {chunk,       task_rows, tile_rows, tile_columns, block,
                                            tile_chunks, strands,   turns,     task_tiles};
        if (schedule_name == Schedule::root)
            attune::schedule_root(stages, out);
        else if (schedule_name == Schedule::tiles)
            attune::schedule_tiles(stages, out, tuning, target);
        else if (schedule_name == Schedule::weight_tiles)
            attune::schedule_weight_tiles(stages, out, tuning, target);
        else
            attune::schedule_panels(stages, out, tuning, target);
        attune::Passes passes{
            .join_matrix_tiles = schedule_name == Schedule::tiles,
            // Rows of a tile are in L1, where they were just laid; weights of a whole depth would drive them out.
            .load_tiles_past_l1 = schedule_name == Schedule::tiles && tile_chunks == 0,
            .whole_vectors = true,
            .masked_tail_loads = {x, weight}};
        attune::fetch_weights_ahead(stages, out, passes, weight, tuning, prefetch_depth, prefetch_runs == 1);
        attune::lower(get_pipeline(), passes, target);
        if (packed && schedule_name != Schedule::root)
            attune::require_multiple("a packed weight's panel", attune::PackedPanels::columns, "tile_columns", tile_columns);
    }

private:
    attune::LinearStages stages;
};
}  // namespace

HALIDE_REGISTER_GENERATOR(Linear, linear)
