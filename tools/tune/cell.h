// SPDX-License-Identifier: MIT
// What is tuned at once: one variant, on the shapes for which dispatch takes it.
#pragma once
#include "bench/cases/shapes.h"
#include "parameters.h"
#include "user_case.h"
#include <string>
#include <vector>

namespace attune::tune {

struct WeightedShape {
    bench::Shape shape;
    double weight = 1;  // share of the time of a running program, of recorded shapes
};

struct Cell {
    std::string variant;  // its name, "sdpa_f32_d64_zen4_prefill_long"
    std::string op, dtype, target, schedule, shape_class, kind;
    std::string like;    // the op whose parameters files serve as well: its own but for a user's attention
    UserAttention user;  // if it is one
    int head_dim = 0;
    Parameters shipped;  // those that are linked in
    std::vector<WeightedShape> shapes;
};

}  // namespace attune::tune
