// SPDX-License-Identifier: MIT
// The parts that plans of all calls share.
#pragma once
#include <string>

namespace attune {

// A variant that could serve the call of a plan, with the time that dispatch predicts for the call, in microseconds on one
// thread of the machine that the coefficients were measured on. The list is sorted, the quickest first.
struct PlanCandidate {
    std::string variant;
    double predicted_us = 0;
    bool measured = false;  // false: no coefficients were measured on this CPU's target; another target's, or a rule's, serve
};

}  // namespace attune
