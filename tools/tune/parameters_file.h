// SPDX-License-Identifier: MIT
// A file of parameters with their provenance: schedules/<op>/tuned/<target>.json, or <folder>/<op>/<target>.json of a user.
#pragma once
#include "cell.h"
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace attune::tune {

class ParametersFile {
public:
    // Reads the file; a missing file has no records. Throws InputError if it is no parameter file.
    ParametersFile(const std::string &file, const std::string &op, const std::string &target);
    // The same of a stream, which messages call `file`.
    ParametersFile(std::istream &, const std::string &file, const std::string &op, const std::string &target);

    // Parameters of the record for exactly the cell's type, head size, schedule, class and kind.
    std::optional<Parameters> find(const Cell &) const;
    // Seeds: all records of the cell's type and schedule, of any head size, class and kind, the nearest first.
    std::vector<Parameters> near(const Cell &) const;
    // Sets the cell's record. A record of several kinds keeps the others.
    void set(const Cell &, const Parameters &, const nlohmann::ordered_json &provenance);
    // Writes the file in the form of schedules/, three lines per record: beside the old file, then renamed.
    void write() const;
    std::string text() const;

private:
    void read(std::istream &);

    std::string file_;
    nlohmann::ordered_json json_;
};

}  // namespace attune::tune
