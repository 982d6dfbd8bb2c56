// SPDX-License-Identifier: MIT
// Fits of all variants to measured shapes, and what they are worth: cross-validated regret beside the linked library's.
#pragma once
#include "fit.h"
#include "times.h"
#include <map>
#include <string>
#include <vector>

namespace attune::dispatch {

// A measured shape; one of a program that recorded its calls weighs more.
struct Measured {
    ShapeTimes times;
    int weight = 1;
};

// The fits of the variants that enough shapes were measured for, by name.
using Fits = std::map<std::string, Fit>;
Fits fits_of(const std::vector<Measured> &);

// Times of choices over those of the quickest variants, of shapes that the fits have not seen.
struct Regrets {
    std::vector<double> fitted, now;  // of the fits' choice; of the choice of the library as it is linked
    std::vector<double> ratios;       // time of the fits' choice over that of the library's
};
// Cross-validation: fits to four fifths of the shapes choose for the others.
Regrets validate(TimedMachine &, const std::vector<Measured> &);
// Whether the fits are better than the linked coefficients, by the rule of parameters (tools/tune/decision.h), groups of shapes
// standing for processes: the interval of the gain lies above 1 %.
bool is_better(const Regrets &);

}  // namespace attune::dispatch
