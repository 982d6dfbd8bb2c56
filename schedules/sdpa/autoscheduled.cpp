// SPDX-License-Identifier: MIT
// Schedules that Halide's autoschedulers found, unchanged except that stages are looked up by name: a schedule holds for every
// algorithm whose stages have these names and as many updates (scripts/autoschedule finds new ones for others).
#include "lowering/require.h"
#include "schedules/sdpa/sdpa_schedules.h"
#include <map>

namespace attune {

// The stage with this name. Halide makes names unique in a process: "weight$2" is a weight, too.
static Halide::Func stage_of(const Halide::Pipeline &pipeline, const std::string &name) {
    std::vector<Halide::Internal::Function> outputs;
    for (const Halide::Func &out : pipeline.outputs()) outputs.push_back(out.function());
    const Halide::Internal::Function *found = nullptr;
    const auto stages = Halide::Internal::build_environment(outputs);
    for (const auto &[full, stage] : stages) {
        if (full != name && full.substr(0, full.find('$')) != name) continue;
        require(!found, "the autoschedulers' " + name + " is more than one stage: run scripts/autoschedule");
        found = &stage;
    }
    require(found, "the autoschedulers' stage " + name + " is gone: run scripts/autoschedule");
    return Halide::Func{*found};
}

}  // namespace attune

#include "schedules/sdpa/autoscheduled/adams2019.schedule.h"
#include "schedules/sdpa/autoscheduled/mullapudi2016.schedule.h"

namespace attune {

void schedule_mullapudi2016(const Halide::Pipeline &pipeline, const Halide::Target &target) {
    apply_schedule_mullapudi2016(pipeline, target);
}

void schedule_adams2019(const Halide::Pipeline &pipeline, const Halide::Target &target) {
    apply_schedule_adams2019(pipeline, target);
}

}  // namespace attune
