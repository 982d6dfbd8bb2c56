// SPDX-License-Identifier: MIT
// Table of the values of `schedule=` for gradients: the form of the stages, their hints and the schedule.
#pragma once
#include "schedules/sdpa/backward_schedules.h"

namespace attune {

struct BackwardForm {
    std::string schedule;
    // Adds the form's numerics to types, tile and block of terms.
    BackwardNumerics (*numerics)(BackwardNumerics, const Halide::Target &);
    BackwardHints (*hints)(const BackwardParameters &, const Halide::Type &accumulator, int head_dim);
    // The schedules of backward_stages(), capture_stages() and captured_stages().
    void (*gradients)(BackwardStages &, const std::vector<Halide::Func> &outputs, const BackwardParameters &,
                      const Halide::Target &, int head_dim);
    void (*capture)(BackwardStages &, Halide::Func out, const BackwardParameters &, const Halide::Target &);
    void (*captured)(BackwardStages &, Halide::Func out, const BackwardParameters &, const Halide::Target &);
};
const std::vector<BackwardForm> &backward_forms();

}  // namespace attune
