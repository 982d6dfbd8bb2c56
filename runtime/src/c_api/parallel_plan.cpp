// SPDX-License-Identifier: MIT
#include "c_api/parallel_plan.h"
#include "c_api/run.h"
#include "c_api/structs.h"

using namespace attune;
using namespace attune::c_api;

namespace {

bool has_rank(Reader &reader, const attune_parallel_plan *plan, std::int32_t rank) {
    if (!reader.must_be_given(plan, {"plan"})) return false;
    const auto ranks = static_cast<std::int64_t>(plan->ranges.size());
    if (rank >= 0 && rank < ranks) return true;
    const std::string said = ranks == 0 ? "the plan has no ranks yet" : "must be from 0 to " + std::to_string(ranks - 1);
    reader.refuse({"rank"}, said + ", got " + std::to_string(rank));
    return false;
}

}  // namespace

attune_status attune_parallel_plan_create(attune_context *context, attune_parallel_plan **plan) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (reader.must_be_given(plan, {"plan"})) *plan = new attune_parallel_plan;
        return reader.status();
    });
}

void attune_parallel_plan_destroy(attune_parallel_plan *plan) { delete plan; }

int64_t attune_parallel_plan_positions_of(const attune_parallel_plan *plan, int32_t rank) {
    const bool known = plan && rank >= 0 && static_cast<std::size_t>(rank) < plan->ranges.size();
    return known ? plan->plan.positions_of(rank) : 0;
}

attune_status attune_parallel_plan_ranges(attune_context *context, const attune_parallel_plan *plan, int32_t rank,
                                          const attune_position_range **ranges, size_t *count) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!has_rank(reader, plan, rank) || !reader.must_be_given(ranges, {"ranges"}) ||
            !reader.must_be_given(count, {"count"}))
            return reader.status();
        const auto &own = plan->ranges[static_cast<std::size_t>(rank)];
        *ranges = own.data(), *count = own.size();
        return {};
    });
}

attune_status attune_parallel_plan_set_ranges(attune_context *context, attune_parallel_plan *plan, int32_t rank,
                                              const attune_position_range *ranges, size_t count) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        if (!has_rank(reader, plan, rank) || (count > 0 && !reader.must_be_given(ranges, {"ranges"}))) return reader.status();
        std::vector<PositionRange> own;
        std::vector<attune_position_range> own_of_c;
        for (std::size_t n = 0; n < count; n++) own.push_back({ranges[n].begin, ranges[n].end}), own_of_c.push_back(ranges[n]);
        plan->plan.of_rank[static_cast<std::size_t>(rank)] = std::move(own);
        plan->ranges[static_cast<std::size_t>(rank)] = std::move(own_of_c);
        return {};
    });
}

attune_status attune_plan_positions(attune_context *context, int64_t positions, int32_t ranks, attune_parallel_layout layout,
                                    int64_t chunk, const attune_parallel_band *band, attune_parallel_plan *plan) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        const auto layout_given = reader.enumeration<ParallelLayout>(layout, names_of_parallel_layout, {"layout"});
        const ParallelBand band_given = read(reader, band, {"band"});
        if (!reader.must_be_given(plan, {"plan"}) || !reader.ok()) return reader.status();
        attune_parallel_plan made;
        if (Status s = plan_positions(positions, ranks, layout_given, chunk, band_given, made.plan); !s.ok()) return s;
        for (const std::vector<PositionRange> &own : made.plan.of_rank) {
            made.ranges.emplace_back();
            for (const PositionRange &r : own) made.ranges.back().push_back({r.begin, r.end});
        }
        *plan = std::move(made);
        return {};
    });
}

attune_status attune_forecast_parallel(attune_context *context, const attune_parallel_plan *plan,
                                       const attune_parallel_problem *problem, attune_parallel_scheme scheme,
                                       const attune_parallel_machine *machine, attune_parallel_forecast *forecast) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        const ParallelPlan &plan_given = read(reader, plan, {"plan"});
        const ParallelProblem problem_given = read(reader, problem, {"problem"});
        const auto scheme_given = reader.enumeration<ParallelScheme>(scheme, names_of_parallel_scheme, {"scheme"});
        const ParallelMachine machine_given = read(reader, machine, {"machine"});
        if (!reader.ok()) return reader.status();
        ParallelForecast made;
        if (Status s = forecast_parallel(plan_given, problem_given, scheme_given, machine_given, made); !s.ok()) return s;
        context->forecast.clear();
        write(reader, made, context->forecast, forecast, {"forecast"});
        return reader.status();
    });
}
