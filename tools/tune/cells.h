// SPDX-License-Identifier: MIT
// Cells of a set of shapes, and the starting points of their search.
#pragma once
#include "cell.h"
#include "records.h"
#include "subject.h"
#include <attune/context.h>
#include <attune/variants.h>
#include <string>
#include <vector>

namespace attune::tune {

// Cells of the shapes: shapes that dispatch gives to the same variant are one cell. Shapes of other ops, and variants that do
// not match the glob, are left out; left_out names shapes that cannot be run. Where dispatch gives no shape to a variant that
// matches, variants that match get all shapes that they can run: one with bad parameters is never dispatched, and would stay as
// it is. Each shape is run once to see. Throws InputError if no cell remains.
std::vector<Cell> cells_of(Subject &, const std::string &variant_glob, Context &);

// Parameters of the cell in the files of the target or of its fallbacks, from the first file that has them; otherwise those of
// the nearest record. `schedules`: the folder schedules/ of a tree or a package. Empty if there are none.
Parameters parameters_in(const std::string &schedules, const Cell &, const std::string &target);

// Starting points: parameters of like cells in the files of all targets, then the best of records for another machine,
// algorithm or Halide; without duplicates.
std::vector<Parameters> seeds_of(const std::string &schedules, const Cell &, const std::vector<Record> &, const RecordKey &);

// Targets in which a target's parameters are looked for, in order: itself, then its fallbacks of schedules/targets.json.
std::vector<std::string> chain_of(const std::string &schedules, const std::string &target);

}  // namespace attune::tune
