// What Halide's autoschedulers found, kept as they wrote it: they address stages by number, so each file names the hash of the
// algorithm that it is for, and CMake refuses it for another (cmake/attune_autoscheduled.cmake).
#include "schedules/sdpa/autoscheduled/adams2019.schedule.h"
#include "schedules/sdpa/autoscheduled/mullapudi2016.schedule.h"
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {

void schedule_mullapudi2016(const Halide::Pipeline &pipeline, const Halide::Target &target) {
    apply_schedule_mullapudi2016(pipeline, target);
}

void schedule_adams2019(const Halide::Pipeline &pipeline, const Halide::Target &target) {
    apply_schedule_adams2019(pipeline, target);
}

}  // namespace attune
