// SPDX-License-Identifier: MIT
// Checks of attention with scores that have no parameters, forward and backward.
#include "check_parts.h"
#include "tests/support/sdpa_backward_case.h"
#include <algorithm>

namespace attune::tune {
namespace {

using namespace attune_test;

template<typename T> class AttentionCheck final : public Check {
public:
    explicit AttentionCheck(const SdpaCase &c) : a_(c) { spoil_masked(a_); }
    attune::Status run(attune::Context &context, std::string_view variant) override { return a_.run(context, variant); }
    void forget_outputs() override { a_.out.forget(), a_.lse.forget(), a_.weights.forget(); }
    std::vector<NamedBytes> inputs() override { return input_bytes(a_); }
    std::vector<NamedBytes> outputs() override { return output_bytes(a_); }
    std::string defect(double &error_ratio) override {
        if (const std::string untouched = untouched_defect(a_); !untouched.empty()) return untouched;
        const auto q = a_.query.view(), k = a_.key.view(), v = a_.value.view();
        const attune::SdpaOptions o = a_.options({});
        return value_defect(sdpa_reference<Reference<T>, T>(q, k, v, o), plain_sdpa<T>(q, k, v, o), a_, &error_ratio);
    }

private:
    SdpaArrays<T> a_;
};

template<typename T> class GradientCheck final : public Check {
public:
    explicit GradientCheck(const SdpaBackwardCase &c) : a_(c) {
        spoil_masked(a_.forward);
        attune::Context context;
        forward_ = a_.run_forward(context);
    }
    attune::Status run(attune::Context &context, std::string_view variant) override {
        return forward_.ok() ? a_.run(context, variant) : forward_;
    }
    void forget_outputs() override {
        a_.each_gradient([](const char *, unsigned, auto &array, auto) { array.forget(); });
    }
    std::vector<NamedBytes> inputs() override {
        std::vector<NamedBytes> all = input_bytes(a_.forward);
        add_bytes(all, "out", a_.forward.out), add_bytes(all, "lse", a_.forward.lse);
        add_bytes(all, "grad_out", a_.grad_out), add_bytes(all, "grad_lse", a_.grad_lse);
        return all;
    }
    std::vector<NamedBytes> outputs() override {
        std::vector<NamedBytes> all;
        a_.each_gradient([&](const std::string &name, unsigned, auto &array, auto) {
            all.push_back({"grad_" + name, array.bytes()});
        });
        return all;
    }
    std::string defect(double &error_ratio) override {
        const std::string found = attune_test::defect(a_, ExpectedGradients<T>(a_), want_all, &error_ratio);
        return found.empty() ? found : "grad_" + found;
    }

private:
    SdpaBackwardArrays<T> a_;
    attune::Status forward_;
};

attune::Score score_of(std::string_view op) {
    if (op.starts_with("cosine")) return attune::Score::cosine;
    return op.starts_with("gaussian") ? attune::Score::gaussian : attune::Score::dot_product;
}

}  // namespace

std::vector<PlannedCheck> attention_checks(const attune::VariantInfo &v, unsigned seed) {
    std::vector<PlannedCheck> checks;
    with_type(v.dtype, [&](auto zero) {
        for (SdpaCase c : awkward_attention(v, seed)) {
            c.score = score_of(v.op);
            checks.push_back(plan<AttentionCheck<decltype(zero)>>(c));
        }
    });
    return checks;
}

std::vector<PlannedCheck> gradient_checks(const attune::VariantInfo &v, unsigned seed) {
    std::vector<PlannedCheck> checks;
    with_type(v.dtype, [&](auto zero) {
        for (SdpaCase c : awkward_attention(v, seed)) {
            c.score = score_of(v.op);
            // The cosine of one channel is a constant, whose gradients are rounding errors only.
            if (c.score == attune::Score::cosine) c.head_dim = std::max<std::int64_t>(c.head_dim, 2);
            const Layout layout = c.out_layout == Layout::broadcast ? Layout::dense : c.out_layout;
            checks.push_back(plan<GradientCheck<decltype(zero)>>(
                SdpaBackwardCase{.forward = c, .grad_lse = c.seed % 3 == 0, .grad_layout = layout}));
        }
    });
    return checks;
}

}  // namespace attune::tune
