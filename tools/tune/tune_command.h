// SPDX-License-Identifier: MIT
// The command attune tune.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct TuneArguments {
    std::string op;
    std::optional<std::string> build;    // folder of a build with generator programs
    std::optional<std::string> shapes;   // CSV
    std::optional<std::string> out;      // folder for <op>/<target>.json
    std::optional<std::string> picture;  // SVG
    std::optional<std::string> from;     // target whose parameters the search starts from
    std::vector<std::string> records;    // files; the first one is also written
    std::vector<std::string> captures;   // name=file.npy or name=number
    std::string variant = "*";           // glob
    std::string strategy = "factored";
    double minutes = 10;
    int threads = 0, jobs = 0;
    std::uint64_t seed = 1;
    bool cold = false, dry = false;
    int identical = 0;  // trials of the decision between identical candidates, without a search
};

// Tunes, with progress on standard error; returns a table. Throws InputError and MachineError.
std::string tune(const TuneArguments &);

}  // namespace attune::tune
