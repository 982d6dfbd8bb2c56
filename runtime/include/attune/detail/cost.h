// SPDX-License-Identifier: MIT
// The terms of predicted times, for the tuner that fits their coefficients; not meant for other callers.
#pragma once
#include "attune/detail/registration.h"
#include "attune/linear.h"
#include "attune/sdpa.h"
#include "attune/status.h"
#include <string_view>

namespace attune::detail {

// Key heads of the entry for which attention's variant is chosen on a device: those of a small batch.
constexpr std::int64_t key_heads_of_device = 32;

// The terms of a call on one thread. Error invalid_argument: there is no such variant.
ATTUNE_API Status cost_terms(std::string_view variant, const SdpaProblem &, CostTerms &) noexcept;
ATTUNE_API Status cost_terms(std::string_view variant, const ProductProblem &, CostTerms &) noexcept;

// The coefficients of a variant in this program, or those of the rule. Error invalid_argument: there is no such variant.
ATTUNE_API Status cost_coefficients(std::string_view variant, CostCoefficients &) noexcept;

}  // namespace attune::detail
