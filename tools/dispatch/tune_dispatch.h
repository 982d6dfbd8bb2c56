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
    bool dry = false;
};

// Times of choices over those of the quickest variants, of shapes that the fits have not seen.
struct Regrets {
    std::vector<double> fitted, now;  // of the fits' choice; of the choice of the library as it is linked
    std::vector<double> ratios;       // time of the fits' choice over that of the library's
};
// Whether the fits are better than what is linked, by the rule of parameters (tools/tune/decision.h), groups of shapes standing
// for processes: the interval of the gain lies above 1 %.
bool is_better(const Regrets &);

// Says what it does on standard error and gives a table; throws InputError and MachineError.
std::string tune_dispatch(const TuneDispatchArguments &);

}  // namespace attune::dispatch
