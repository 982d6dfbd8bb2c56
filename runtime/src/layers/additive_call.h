// SPDX-License-Identifier: MIT
// Common parts of additive attention, forward and backward: checks of its own options, and the arguments of the score.
#pragma once
#include "attention/sdpa_call.h"
#include "attune/additive.h"
#include <vector>

namespace attune {

Status check_additive_options(const AdditiveOptions &, DType of_query);
Status check_w_score(const ConstView &, const SdpaProblem &);
// Checks that query and key, once projected, have one width.
Status check_additive_widths(const AdditiveOptions &, const ConstView &query, const ConstView &key);
std::vector<NamedView> additive_inputs(const ConstView &query, const ConstView &key, const AdditiveOptions &);

// Sets scale, bias and weight of a call; holds the weight of all ones for a w_score that is left out.
class AdditiveWeight {
public:
    AdditiveWeight(const AdditiveOptions &, SdpaCall &);
    AdditiveWeight(const AdditiveWeight &) = delete;

private:
    std::vector<float> ones32_;
    std::vector<double> ones64_;
};

}  // namespace attune
