// SPDX-License-Identifier: MIT
// Coefficients moved towards better choices: the fit of each variant by itself minimises the errors of its predictions, of
// which the ones that change no choice cost nothing.
#pragma once
#include "fit.h"
#include <cstddef>

namespace attune::dispatch {

// The variants of a shape, from which dispatch chooses the one of least predicted time.
struct Contest {
    struct Candidate {
        std::size_t variant;
        Terms terms;
        double loss;  // logarithm of its time over the quickest one's
    };
    std::vector<Candidate> candidates;
    double weight = 1;
};

// Minimises the loss of choices over all contests. A choice is made soft, candidates by the powers of their predicted times, so
// that the loss has a gradient; coefficients that a fit has left out stay 0, and the others stay near their fits.
void refine(std::vector<detail::CostCoefficients> &costs, const std::vector<Contest> &);

}  // namespace attune::dispatch
