// SPDX-License-Identifier: MIT
// The shapes to tune for: a CSV as those of bench/shapes, or as a program writes it that ran with ATTUNE_RECORD_SHAPES=FILE.
#pragma once
#include "cell.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

// Shapes with their shares of the time; equal shapes are one. Throws InputError that names the line.
std::vector<WeightedShape> read_weighted_shapes(const std::string &file);

// A shape as an object of the columns of such a file, as the worker reads it.
nlohmann::json json_of(const bench::Shape &);

}  // namespace attune::tune
