// SPDX-License-Identifier: MIT
// Wiring only: parameters, inputs, outputs.
#include "generators/math/accumulator.h"
#include "lowering/lower.h"
#include "lowering/require.h"
#include "schedules/linear/linear_schedules.h"

namespace {
enum class Schedule { root, panels };

class BatchDot : public Halide::Generator<BatchDot> {
public:
    GeneratorParam<Schedule> schedule_name{
        "schedule", Schedule::root, {{"root", Schedule::root}, {"panels", Schedule::panels}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    GeneratorParam<int> depth_block{"depth_block", 256, 1, 1 << 20};
    GeneratorParam<int> task_rows{"task_rows", 0, 0, 1 << 20};
    GeneratorParam<int> tile_rows{"tile_rows", 0, 0, 64};
    GeneratorParam<int> tile_columns{"tile_columns", 0, 0, 1024};
    GeneratorParam<int> tile_depth_blocks{"tile_depth_blocks", 1, 0, 1 << 20};
    GeneratorParam<int> prefetch_tiles{"prefetch_tiles", 0, 0, 1};
    GeneratorParam<int> full_tiles{"full_tiles", 0, 0,
                                   1};                  // 1: for columns that fill their tiles, which are then read as they lie
    GeneratorParam<int> few_rows{"few_rows", 0, 0, 1};  // 1: x is not packed, whatever its columns: for few rows
    GeneratorParam<int> update_depth{"update_depth", 1, 1, 64};  // LinearShape

    Input<Buffer<void, 4>> a{"a"}, x{"x"};  // (k, m, h, b), (n, k, h, b)
    Input<int> task_tiles{"task_tiles"};    // PanelParameters
    Output<Buffer<void, 4>> out{"out"};     // (n, m, h, b)

    void configure() { a.set_type(dtype), x.set_type(dtype), out.set_type(dtype); }

    void generate() {
        attune::LinearInputs in;
        in.x = a;
        in.weight = [this](Expr n, Expr k, Expr h, Expr b) { return x(n, k, h, b); };
        in.as_it_lies = full_tiles == 1, in.read_once = few_rows == 1 || (tile_rows == 1 && full_tiles == 1);
        in.rows = a.dim(1).extent(), in.columns = x.dim(0).extent(), in.depth = a.dim(0).extent();
        attune::require_multiple("depth_block", depth_block, "update_depth", update_depth);
        const attune::LinearShape shape{
            .type = attune::accumulator_of(dtype), .depth_block = depth_block, .block = 0, .update_depth = update_depth};
        if (update_depth > 1 && schedule_name != Schedule::root)
            form = attune::linear_rank_k_stages(in, shape);
        else
            form = attune::linear_panel_stages(in, shape);
        out = std::visit([](const auto &stages) { return stages.out; }, form);
    }

    void schedule() {
        for (int n = 0; n < 4; n++) a.dim(n).set_min(0), x.dim(n).set_min(0), out.dim(n).set_min(0);
        if (schedule_name == Schedule::root) return attune::schedule_root(std::get<attune::PanelStages>(form), out);
        const attune::PanelParameters parameters{.depth_block = depth_block,
                                                 .task_rows = task_rows,
                                                 .tile_rows = tile_rows,
                                                 .tile_columns = tile_columns,
                                                 .block = 0,
                                                 .tile_depth_blocks = tile_depth_blocks,
                                                 .tiles_of_call = task_tiles,
                                                 .one_depth_block = a.dim(0).extent() <= depth_block};
        attune::Passes passes{.masked_tail_loads = {a, x}};
        std::visit([&](auto &stages) { schedule_stages(stages, parameters, passes); }, form);
        attune::lower(get_pipeline(), passes, target);
    }

private:
    std::variant<attune::PanelStages, attune::RankKStages> form;

    void schedule_stages(attune::PanelStages &stages, const attune::PanelParameters &parameters, attune::Passes &passes) {
        attune::schedule_form(stages, out, parameters, target);
        if (prefetch_tiles) attune::prefetch_rows(stages, out, passes, a, parameters);
    }
    void schedule_stages(attune::RankKStages &stages, const attune::PanelParameters &parameters, attune::Passes &) {
        attune::require(few_rows == 1, "update_depth is for few_rows, which reads x as it lies");
        attune::require(prefetch_tiles == 0, "prefetch_tiles is not for update_depth");
        attune::schedule_form(stages, out, parameters, target);
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(BatchDot, batch_dot)
