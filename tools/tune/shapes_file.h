// SPDX-License-Identifier: MIT
// Tuning shapes: a CSV as in bench/shapes, or as written by a program that ran with ATTUNE_RECORD_SHAPES=FILE.
#pragma once
#include "cell.h"
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace attune::tune {

// Shapes with their shares of the time; equal shapes are merged. Throws InputError that names the line.
std::vector<WeightedShape> read_weighted_shapes(const std::string &file);

// A shape as an object of the columns of such a file, as the worker reads it.
nlohmann::json json_of(const bench::Shape &);

}  // namespace attune::tune
