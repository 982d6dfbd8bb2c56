// SPDX-License-Identifier: MIT
// Strings and lists that the results of C calls point to, and that belong to the context.
#pragma once
#include "attune/attune_c.h"
#include "attune/plan.h"
#include "attune/variants.h"
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace attune::c_api {

class Texts {
public:
    const char *keep(std::string_view text) { return texts_.emplace_back(text).c_str(); }
    const attune_plan_candidate *keep(const std::vector<PlanCandidate> &candidates) {
        candidates_.reserve(candidates.size());
        for (const PlanCandidate &c : candidates) candidates_.push_back({keep(c.variant), c.predicted_us, c.measured, 0});
        return candidates_.empty() ? nullptr : candidates_.data();
    }
    const std::int64_t *keep(const std::vector<std::int64_t> &numbers) { return integers_.emplace_back(numbers).data(); }
    const double *keep(const std::vector<double> &numbers) { return numbers_.emplace_back(numbers).data(); }
    void clear() { texts_.clear(), candidates_.clear(), integers_.clear(), numbers_.clear(); }

private:
    std::deque<std::string> texts_;  // whose strings stay where they are
    std::vector<attune_plan_candidate> candidates_;
    std::deque<std::vector<std::int64_t>> integers_;
    std::deque<std::vector<double>> numbers_;
};

// The lists of attune_variants() and attune_targets().
struct Lists {
    std::vector<VariantInfo> variants;
    std::vector<TargetInfo> targets;
};

}  // namespace attune::c_api
