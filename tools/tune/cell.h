// SPDX-License-Identifier: MIT
// A cell, the unit of tuning: one variant, on the shapes for which dispatch takes it.
#pragma once
#include "bench/cases/shapes.h"
#include "parameters.h"
#include "user_case.h"
#include <string>
#include <vector>

namespace attune::tune {

struct WeightedShape {
    bench::Shape shape;
    double weight = 1;  // for recorded shapes: share of the program's time
};

struct Cell {
    std::string variant;  // its name, "sdpa_f32_d64_zen4_prefill_long"
    std::string op, dtype, target, schedule, shape_class, kind;
    std::string like;    // op whose parameter files also serve: its own, or for a user's attention another
    UserAttention user;  // if the op is a user's attention
    int head_dim = 0;
    Parameters shipped;  // those of the linked variant
    std::vector<WeightedShape> shapes;
};

}  // namespace attune::tune
