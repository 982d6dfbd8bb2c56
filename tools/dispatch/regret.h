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

// Worth of a variant over shapes that were timed: a kernel whose absence costs nothing can be dropped, one at a time.
struct VariantWorth {
    std::string variant;
    int shapes = 0;         // that it can compute
    int near = 0;           // of these, where it is within 3 % of the quickest variant
    double loss = 0;        // without it: the time of the quickest other variant over that of the quickest, geometric mean
    double worst_loss = 1;  // at most; Inf where there is no other
};
// From the least worst loss to the most.
std::vector<VariantWorth> worth_of_variants(const std::vector<ShapeTimes> &);

// Tables of quantiles, of the worst shapes and of the variants that are worth least; throws InputError and MachineError.
std::string compare_dispatch(const RegretArguments &);

}  // namespace attune::dispatch
