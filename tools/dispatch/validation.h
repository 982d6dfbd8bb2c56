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
Fits fits_of(const std::vector<Measured> &, Place);

// Times of choices over those of the quickest variants, of shapes that the fits have not seen.
struct Regrets {
    std::vector<double> fitted, now;  // of the fits' choice; of that by the coefficients of the linked library
    std::vector<double> ratios;       // time of the fits' choice over that of the other
};
// Cross-validation: fits to four fifths of the shapes choose for the others.
Regrets validate(const std::vector<Measured> &, Place);
// Whether the fits are better than the linked coefficients: as for parameters (tools/tune/decision.h), groups of shapes
// standing for processes, but the interval of the gain lies above 0.3 %.
bool is_better(const Regrets &);

}  // namespace attune::dispatch
