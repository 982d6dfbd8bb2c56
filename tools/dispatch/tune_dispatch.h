// SPDX-License-Identifier: MIT
// attune tune --dispatch: fits the cost coefficients of all variants to this machine.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attune::dispatch {

struct TuneDispatchArguments {
    std::vector<std::string> ops;       // all where empty
    std::optional<std::string> build;   // of attune; the tree or package of this program without it
    std::optional<std::string> out;     // folder of <op>/costs/<target>.json
    std::optional<std::string> shapes;  // CSV of a program's calls, fitted beside the grid and with more weight
    std::optional<std::string> log;     // of measured times
    double minutes = 5;
    unsigned seed = 1;
    bool dry = false, device = false;
};

// Says what it does on standard error and gives a table; throws InputError and MachineError.
std::string tune_dispatch(const TuneDispatchArguments &);

}  // namespace attune::dispatch
