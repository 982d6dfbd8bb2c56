// SPDX-License-Identifier: MIT
// schedules/<op>/tuned/<target>.json, or <folder>/<op>/<target>.json of a user: parameters with where they come from.
#pragma once
#include "cell.h"
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::tune {

class ParametersFile {
public:
    // Reads the file; where there is none, one without records. Throws InputError where it is no such file.
    ParametersFile(const std::string &file, const std::string &op, const std::string &target);

    // Of a record for exactly the cell's type, head size, schedule, class and kind.
    std::optional<Parameters> find(const Cell &) const;
    // All records of the cell's type and schedule, of any head size, class and kind, the nearest first: seeds.
    std::vector<Parameters> near(const Cell &) const;
    // The cell's record. One that held the kind together with others keeps the others.
    void set(const Cell &, const Parameters &, const nlohmann::ordered_json &provenance);
    // As the files in schedules/ are written: a record is three lines. Written beside the file and renamed.
    void write() const;
    std::string text() const;

private:
    std::string file_;
    nlohmann::ordered_json json_;
};

}  // namespace attune::tune
