// SPDX-License-Identifier: MIT
// Variants of the gradients of attention that can run a case, and the check of all of them against references that are computed
// once.
#pragma once
#include "tests/support/sdpa_backward_case.h"
#include "tests/support/variant_grid.h"
#include <set>

namespace attune_test {

inline constexpr std::string_view backward_op = "sdpa_backward";

template<typename F> void for_each_backward(const F &f) { for_each_variant(backward_op, any_kind, f); }

// The op of a score's gradients.
inline std::string_view backward_op_of(attune::Score score) {
    if (score == attune::Score::cosine) return "cosine_backward";
    return score == attune::Score::gaussian ? "gaussian_backward" : backward_op;
}

// Whether a variant takes every option of a case, and its head sizes.
inline bool fits(const attune::VariantInfo &v, const SdpaCase &c) {
    const bool scored = c.softcap > 0 || !c.bias.empty() || c.alibi != Alibi::none || !c.mask.empty() || c.sinks;
    const bool training = c.dropout.probability > 0 && c.dropout.probability < 1;
    if (training && v.kind != "training") return false;
    if (scored && v.kind == "plain") return false;
    return v.head_dim == 0 || (v.head_dim == c.head_dim && v.head_dim == c.value_dim);
}
template<typename T> std::vector<attune::VariantInfo> backward_variants(std::string_view op = backward_op) {
    std::vector<attune::VariantInfo> all;
    for (const attune::VariantInfo &v : attune::variants())
        if (v.op == op && v.runs_here && v.dtype == attune::dtype_of<T>()) all.push_back(v);
    return all;
}

// Head sizes of query and key, and of value: those with variants of their own, and one for variants of any size.
template<typename T> std::vector<std::pair<std::int64_t, std::int64_t>> backward_head_sizes() {
    std::set<std::pair<std::int64_t, std::int64_t>> all;
    for (const attune::VariantInfo &v : backward_variants<T>()) all.insert(head_size(v));
    return {all.begin(), all.end()};
}

// Calls f(T{}) for every element type.
template<typename F> void for_each_type(const F &f) { f(float{}), f(double{}), f(BFloat16{}), f(Float16{}); }

// Runs a case by every variant of its type that can, and checks everything that each wrote.
template<typename T> void check_backward(attune::Context &context, const SdpaBackwardCase &c) {
    SdpaBackwardArrays<T> clean(c);
    INFO(describe(c));
    const attune::Status status = clean.run_forward(context);
    INFO(status.message());
    REQUIRE(status.ok());
    const ExpectedGradients<T> expected(clean);
    int ran = 0;
    for (const attune::VariantInfo &v : backward_variants<T>(backward_op_of(c.forward.score))) {
        if (!fits(v, c.forward)) continue;
        SdpaBackwardArrays<T> a(clean);
        const attune::Status status = a.run(context, v.name);
        INFO(v.name << "  " << v.parameters << "  " << status.message());
        CHECK(status.ok());
        if (status.ok()) CHECK(defect(a, expected) == "");
        ran++;
    }
    CHECK(ran > 0);
}

// Runs a case by the variant that dispatch chooses, and checks it.
template<typename T> void check_dispatched(attune::Context &context, const SdpaBackwardCase &c) {
    SdpaBackwardArrays<T> a(c);
    INFO(describe(c));
    attune::Status status = a.run_forward(context);
    if (status.ok()) status = a.run(context);
    INFO(status.message());
    CHECK(status.ok());
    if (status.ok()) CHECK(defect(a, ExpectedGradients<T>(a)) == "");
}

}  // namespace attune_test
