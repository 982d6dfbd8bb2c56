// SPDX-License-Identifier: MIT
// Coefficients of predicted times that nobody has measured, from a variant's parameters and the facts of its target.
#pragma once
#include "dispatch/runnable.h"

namespace attune {

detail::CostCoefficients cost_by_rule(const Runnable &);

}  // namespace attune
