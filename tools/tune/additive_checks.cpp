// SPDX-License-Identifier: MIT
// Checks of additive attention, forward and backward.
#include "check_parts.h"
#include "tests/support/additive_backward_case.h"

namespace attune::tune {
namespace {

using namespace attune_test;

template<typename T> class AdditiveCheck final : public Check {
public:
    AdditiveCheck(const AdditiveCase &c, bool spoil) : a_(c) {
        if (spoil) spoil_masked(a_.base);
    }
    attune::Status run(attune::Context &context, std::string_view variant) override { return a_.run(context, variant); }
    void forget_outputs() override { a_.base.out.forget(), a_.base.lse.forget(), a_.base.weights.forget(); }
    std::vector<NamedBytes> inputs() override {
        std::vector<NamedBytes> all = input_bytes(a_.base);
        add_bytes(all, "w_query", a_.w_query), add_bytes(all, "w_key", a_.w_key), add_bytes(all, "w_score", a_.w_score);
        return all;
    }
    std::vector<NamedBytes> outputs() override { return output_bytes(a_.base); }
    std::string defect(double &) override { return attune_test::defect(a_); }

private:
    AdditiveArrays<T> a_;
};

template<typename T> class AdditiveGradientCheck final : public Check {
public:
    explicit AdditiveGradientCheck(const AdditiveBackwardCase &c) : a_(c) {
        spoil_masked(a_.forward.base);
        attune::Context context;
        forward_ = a_.run_forward(context);
    }
    attune::Status run(attune::Context &context, std::string_view variant) override {
        return forward_.ok() ? a_.run(context, variant) : forward_;
    }
    void forget_outputs() override {
        a_.each_gradient([](const char *, auto &array, auto) { array.forget(); });
    }
    std::vector<NamedBytes> inputs() override {
        std::vector<NamedBytes> all = input_bytes(a_.forward.base);
        add_bytes(all, "w_query", a_.forward.w_query), add_bytes(all, "w_key", a_.forward.w_key);
        add_bytes(all, "w_score", a_.forward.w_score), add_bytes(all, "out", a_.forward.base.out);
        add_bytes(all, "lse", a_.forward.base.lse), add_bytes(all, "grad_out", a_.grad_out);
        add_bytes(all, "grad_lse", a_.grad_lse);
        return all;
    }
    std::vector<NamedBytes> outputs() override {
        std::vector<NamedBytes> all;
        a_.each_gradient([&](const std::string &name, auto &array, auto) { all.push_back({"grad_" + name, array.bytes()}); });
        return all;
    }
    std::string defect(double &) override {
        const std::string found = attune_test::defect(a_);
        return found.empty() ? found : "grad_" + found;
    }

private:
    AdditiveBackwardArrays<T> a_;
    attune::Status forward_;
};

// Cases projected by the library and by the caller in turns, with the sizes of a variant for one head size.
std::vector<AdditiveCase> awkward_additive(const attune::VariantInfo &v, unsigned seed) {
    std::vector<AdditiveCase> cases;
    for (const SdpaCase &given : awkward_attention(v, seed)) {
        if (given.key_noise) continue;  // key_noise is for scores that are products
        AdditiveCase c{.attention = given, .hidden = v.head_dim ? v.head_dim : 16};
        c.w_query = c.w_key = given.seed % 2;
        c.attention.key_dim = c.attention.head_dim;
        cases.push_back(c);
    }
    return cases;
}

}  // namespace

std::vector<PlannedCheck> additive_checks(const attune::VariantInfo &v, unsigned seed) {
    std::vector<PlannedCheck> checks;
    with_wide_type(v.dtype, [&](auto zero) {
        // The separable form refuses operands beyond a magnitude, masked or not.
        const bool spoil = v.op != "additive_separable";
        for (const AdditiveCase &c : awkward_additive(v, seed))
            checks.push_back({describe(c), [=] { return std::make_unique<AdditiveCheck<decltype(zero)>>(c, spoil); }});
    });
    return checks;
}

std::vector<PlannedCheck> additive_gradient_checks(const attune::VariantInfo &v, unsigned seed) {
    std::vector<PlannedCheck> checks;
    with_wide_type(v.dtype, [&](auto zero) {
        for (const AdditiveCase &c : awkward_additive(v, seed))
            checks.push_back(plan<AdditiveGradientCheck<decltype(zero)>>(AdditiveBackwardCase{
                .forward = c, .grad_lse = c.attention.seed % 3 == 0, .grad_layout = c.attention.out_layout}));
    });
    return checks;
}

}  // namespace attune::tune
