// SPDX-License-Identifier: MIT
// The terms of predicted times, for the tuner that fits their coefficients; not meant for other callers.
#pragma once
#include "attune/detail/registration.h"
#include "attune/linear.h"
#include "attune/sdpa.h"
#include "attune/status.h"
#include <array>
#include <string_view>

namespace attune::detail {

// Terms of a call for one variant: a call, its tasks, and what they compute, read and write (runtime/src/dispatch/cost.h).
using CostTerms = std::array<double, std::tuple_size_v<CostCoefficients>>;

// The terms of a call on one thread. Error invalid_argument: no such variant, or one that cannot compute the problem.
ATTUNE_API Status cost_terms(std::string_view variant, const SdpaProblem &, CostTerms &) noexcept;
ATTUNE_API Status cost_terms(std::string_view variant, const ProductProblem &, CostTerms &) noexcept;

}  // namespace attune::detail
