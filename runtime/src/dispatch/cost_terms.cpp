// SPDX-License-Identifier: MIT
// The terms of predicted times, for the tuner.
#include "attention/attention_cost.h"
#include "attune/detail/cost.h"
#include "layers/product_cost.h"

namespace attune {
namespace {

// Calls use(runnable) for a variant.
template<typename Use> Status with_variant(std::string_view variant, const Use &use) {
    const VariantRecord *v = find_variant(variant);
    if (!v) return {StatusCode::invalid_argument, "variant: there is no variant " + std::string(variant)};
    use(runnable_of(*v));
    return {};
}

}  // namespace

Status detail::cost_terms(std::string_view variant, const SdpaProblem &problem, CostTerms &terms) noexcept try {
    return with_variant(variant, [&](const Runnable &v) { terms = attention_terms(problem, v); });
} catch (const std::bad_alloc &) {
    return {StatusCode::out_of_memory, "out of memory"};
}

Status detail::cost_terms(std::string_view variant, const ProductProblem &problem, CostTerms &terms) noexcept try {
    return with_variant(variant, [&](const Runnable &v) { terms = product_terms(problem, v); });
} catch (const std::bad_alloc &) {
    return {StatusCode::out_of_memory, "out of memory"};
}

Status detail::cost_coefficients(std::string_view variant, CostCoefficients &cost) noexcept try {
    return with_variant(variant, [&](const Runnable &v) { cost = v.cost; });
} catch (const std::bad_alloc &) {
    return {StatusCode::out_of_memory, "out of memory"};
}

}  // namespace attune
