// SPDX-License-Identifier: MIT
// Form of the file schedules/<op>/space.json.
//
//   {"schema": 1, "op": "sdpa", "like": "other op",      where no space of this file fits, those of that op's file are asked
//    "spaces": [
//      {"schedules": ["prefill"], "classes": ["long"],   classes: all that no space before it is for, if left out; "": no name
//       "note": "...",                                   for readers of the file
//       "parameters": {
//         "tile_q": {"values": [16, "2 * lanes"],        expressions over facts; or lists of them by class:
//                    "stage": 1, "default": 16},         {"long": [...], "other": [...]}. default: of parameters that lack it
//         ...},
//       "constraints": [                                 expressions over parameters and facts
//         {"require": "tile_q < 2 * kv_block", "else": "tile_q {tile_q} is too much for a kv_block of {kv_block}"},
//         {"multiple": "kv_block", "of": "key_tile"},
//         {"for": "sums", "need": "tile_q * key_tile", "of": "registers"}, ...]}]}
//
// Facts are those of space.h, and channels: the head size, or 128 where it may be any.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::tune {

struct ParameterLines {
    std::string name;
    std::vector<std::string> values;  // expressions
    int stage = 1;
    std::optional<int> otherwise;  // default for parameters that lack it
};

struct SpaceLines {
    std::string file;  // the file of the space
    std::vector<ParameterLines> parameters;
    std::vector<std::pair<std::string, std::string>> constraints;  // requirement, and the words for a violation
};

// Reads a space. Throws InputError with the fault of the file and its place.
SpaceLines read_space_lines(const std::string &file, const std::string &op, const std::string &schedule,
                            const std::string &shape_class);

}  // namespace attune::tune
