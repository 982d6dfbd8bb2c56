// SPDX-License-Identifier: MIT
// Which variants a set of shapes is about, and where their search starts.
#pragma once
#include "cell.h"
#include "records.h"
#include "subject.h"
#include <attune/context.h>
#include <attune/variants.h>
#include <string>
#include <vector>

namespace attune::tune {

// Shapes that dispatch gives to the same variant are one cell. Shapes of other ops, and variants that do not match the glob,
// are left out, those that cannot be run with a word in left_out. Each shape is run once to see. Throws InputError where none
// remains.
std::vector<Cell> cells_of(Subject &, const std::string &variant_glob, Context &);

// The parameters of the cell in the files of the target or of its fallbacks, the first that has them; of the nearest record
// else. `schedules`: the folder schedules/ of a tree or a package. Empty if there are none.
Parameters parameters_in(const std::string &schedules, const Cell &, const std::string &target);

// Where to begin: what the files of all targets hold for like cells, then the best of records for another machine, algorithm or
// Halide; without duplicates.
std::vector<Parameters> seeds_of(const std::string &schedules, const Cell &, const std::vector<Record> &, const RecordKey &);

// Of a target, in the order in which its parameters are looked for: itself, then schedules/targets.json's fallbacks.
std::vector<std::string> chain_of(const std::string &schedules, const std::string &target);

}  // namespace attune::tune
