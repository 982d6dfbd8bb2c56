// SPDX-License-Identifier: MIT
// The fit of a variant's cost coefficients to measured times.
#pragma once
#include <attune/detail/cost.h>
#include <numeric>
#include <vector>

namespace attune::dispatch {

struct Sample {
    detail::CostTerms terms{};
    double ns = 0;     // the variant's time
    double least = 0;  // the time of the quickest variant at the same shape
};

// Nanoseconds that coefficients predict for terms.
template<typename Coefficients> double predicted(const Coefficients &cost, const detail::CostTerms &terms) {
    return std::inner_product(terms.begin(), terms.end(), cost.begin(), 0.0);
}

struct Fit {
    detail::CostCoefficients cost{};
    double error = 0;  // error_of() the samples
};

// Median of |predicted / measured - 1|.
double error_of(const detail::CostCoefficients &, const std::vector<Sample> &);

// Coefficients, at most six and all >= 0, that minimise relative errors, those near the quickest variant's time counting most:
// a variant that takes twice as long is not chosen, however wrong its prediction. Least squares whose weights are renewed by
// the residuals, which comes near to least absolute errors, so that a disturbed sample moves little.
detail::CostCoefficients fit(const std::vector<Sample> &);

// min |A x - y| for x >= 0, of normal equations a = A^T A and b = A^T y: by coordinate descent.
using Terms = detail::CostTerms;
using Square = std::array<Terms, std::tuple_size_v<Terms>>;
Terms least_squares_of_positive(const Square &a, const Terms &b);

}  // namespace attune::dispatch
