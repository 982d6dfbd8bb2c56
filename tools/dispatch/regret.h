// SPDX-License-Identifier: MIT
// Regret of dispatch: the time of the chosen variant over that of the quickest one that is linked in.
#pragma once
#include "times.h"
#include <optional>
#include <string>
#include <vector>

namespace attune::dispatch {

struct RegretArguments {
    std::string op = "sdpa";
    std::optional<std::string> shapes, picture;  // CSV; random shapes without it
    int threads = 0, count = 300;
    unsigned seed = 1;
    bool device = false;
};

struct Quantiles {
    double median = 1, ninth_decile = 1, worst = 1;
};
Quantiles quantiles_of(std::vector<double> regrets);

// A table of quantiles and of the worst shapes; throws InputError and MachineError.
std::string compare_dispatch(const RegretArguments &);

}  // namespace attune::dispatch
