// SPDX-License-Identifier: MIT
// The terms of predicted times, for the tuner.
#include "attention/attention_cost.h"
#include "attune/detail/cost.h"
#include "layers/product_cost.h"

namespace attune {
namespace {

template<typename Problem, typename Terms>
Status terms_for(std::string_view variant, const Problem &problem, const Terms &terms_of, detail::CostTerms &terms) {
    const VariantRecord *v = find_variant(variant);
    if (!v) return {StatusCode::invalid_argument, "variant: there is no variant " + std::string(variant)};
    terms = terms_of(problem, runnable_of(*v));
    return {};
}

}  // namespace

Status detail::cost_terms(std::string_view variant, const SdpaProblem &problem, CostTerms &terms) noexcept try {
    return terms_for(variant, problem, attention_terms, terms);
} catch (const std::bad_alloc &) {
    return {StatusCode::out_of_memory, "out of memory"};
}

Status detail::cost_terms(std::string_view variant, const ProductProblem &problem, CostTerms &terms) noexcept try {
    return terms_for(variant, problem, product_terms, terms);
} catch (const std::bad_alloc &) {
    return {StatusCode::out_of_memory, "out of memory"};
}

}  // namespace attune
