// SPDX-License-Identifier: MIT
// Gradients of attention against central differences of its forward pass, by the definition or the library, in f64.
#pragma once
#include "tests/support/central_differences.h"
#include "tests/support/option_sets.h"
#include "tests/support/sdpa_backward_case.h"

namespace attune_test {

// A case of two entries, four query heads on two key heads.
inline SdpaCase small_case(unsigned seed) {
    return {.query_heads = 4, .key_heads = 2, .queries = 5, .keys = 7, .head_dim = 3, .value_dim = 5, .seed = seed};
}

inline void check_differences(SdpaBackwardArrays<double> &a, const SdpaBackwardResult<double> &gradients,
                              const std::function<double()> &loss, std::size_t most) {
    std::mt19937 random(a.f().seed);
    std::vector<DifferencedInput> inputs;
    const auto add = [&](const char *name, auto &array, const std::vector<double> &gradient) {
        inputs.push_back(differenced(name, array, gradient, loss));
    };
    add("query", a.forward.query, gradients.query);
    add("key", a.forward.key, gradients.key);
    add("value", a.forward.value, gradients.value);
    if (!a.f().bias.empty()) add("bias", a.forward.bias, gradients.bias);
    if (a.f().alibi > Alibi::standard) add("alibi_slopes", a.forward.slopes, gradients.alibi_slopes);
    if (a.f().sinks) add("sinks", a.forward.sinks, gradients.sinks);
    if (a.f().score == attune::Score::general) add("score_weight", a.forward.score_weight, gradients.score_weight);
    INFO(describe(a.the));
    for (const DifferencedInput &input : inputs) CHECK(difference_defect(input, most, random) == "");
}
// Rounds slopes and sinks so that central_difference can move them exactly.
inline void round_floats(SdpaBackwardArrays<double> &a) {
    for (auto *array : {&a.forward.slopes, &a.forward.sinks}) array->each([](float &x) { x = std::round(x * 4096) / 4096; });
}

inline void check_library_gradients(attune::Context &context, const SdpaBackwardCase &c, std::size_t most) {
    SdpaBackwardArrays<double> a(c);
    round_floats(a);
    INFO(describe(c));
    attune::Status status = a.run_forward(context);
    if (status.ok()) status = a.run(context);
    INFO(status.message());
    REQUIRE(status.ok());
    const auto wide = [](std::vector<float> x) { return std::vector<double>(x.begin(), x.end()); };
    check_differences(
        a,
        {a.grad_query.values(), a.grad_key.values(), a.grad_value.values(), a.grad_bias.values(), wide(a.grad_slopes.values()),
         wide(a.grad_sinks.values()), a.grad_score_weight.values()},
        [&] {
            if (!a.run_forward(context).ok()) return std::nan("");
            return loss_of(a, a.forward.out.values(), a.forward.lse.values());
        },
        most);
}

// Calls check(case) for small cases of each option, half of them with a loss that depends on lse.
template<typename Check> void for_each_small_case(const std::vector<SetOption> &options, const Check &check) {
    unsigned seed = 1;
    for (const SetOption &set_option : options) {
        SdpaBackwardCase c{.forward = small_case(seed), .grad_lse = seed % 2 == 0};
        set_option(c.forward), seed++;
        check(c);
    }
}
inline void check_small_cases(const std::vector<SetOption> &options) {
    attune::Context context;
    for_each_small_case(options, [&](const SdpaBackwardCase &c) {
        check_library_gradients(context, c, std::numeric_limits<std::size_t>::max());
    });
}

}  // namespace attune_test
