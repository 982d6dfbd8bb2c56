// SPDX-License-Identifier: MIT
// Gradients of additive attention equal the central differences of the forward pass, for every input, under every option.
// docs/conventions.md rows 4, 10, 12, 16, 24, 25, 26, 27 and 35.
#include "tests/support/additive_backward_case.h"
#include "tests/support/central_differences.h"
#include "tests/support/option_sets.h"

using namespace attune_test;
using attune::Causal;

namespace {
// A case of two entries, four query heads on two key heads; query, key, value and the sum have different widths.
AdditiveBackwardCase additive_case(unsigned seed) {
    AdditiveBackwardCase c;
    c.forward.attention = {.query_heads = 4, .key_heads = 2, .queries = 5, .keys = 7, .head_dim = 3, .value_dim = 5};
    c.forward.attention.key_dim = 4, c.forward.attention.seed = seed;
    c.forward.hidden = 6, c.forward.b_query = c.forward.b_key = true, c.forward.b_score = 0.25;
    c.grad_lse = seed % 2 == 0;
    return c;
}
using SetCase = std::function<void(AdditiveBackwardCase &)>;
std::vector<SetCase> additive_options() {
    std::vector<SetCase> all;
    const auto attention = [&](const SetOption &set) {
        all.push_back([set](AdditiveBackwardCase &c) { set(c.forward.attention); });
    };
    for (const auto &set : {option_sets::causal_masks(), option_sets::window_masks(), option_sets::length_masks()})
        for (std::size_t n = 0; n < set.size(); n += 2) attention(set[n]);
    attention([](SdpaCase &c) { c.mask = "b1ij"; });
    // Two rows without keys.
    attention([](SdpaCase &c) { c.causal = Causal::bottom_right, c.queries = 7, c.keys = 5; });
    for (const char *shape : {"bhij", "hij", "ij", "j", "i1", "b11j", "1h11"}) attention([=](SdpaCase &c) { c.bias = shape; });
    attention([](SdpaCase &c) { c.bias = "hij", c.hole = option_sets::minus_infinity, c.strided_masks = true; });
    for (Alibi alibi : {Alibi::standard, Alibi::per_head, Alibi::per_batch}) attention([=](SdpaCase &c) { c.alibi = alibi; });
    attention([](SdpaCase &c) { c.softcap = 0.7; });
    attention([](SdpaCase &c) { c.sinks = true, c.valid_lens = {0, 4}; });
    for (double p : {0.3, 1.0}) attention([=](SdpaCase &c) { c.dropout = {p, 0xfedcba9876543210ull, 2}; });
    attention([](SdpaCase &c) { c.scale = -0.8; });
    for (auto [heads, key_heads] : {std::pair(1, 1), {3, 1}, {6, 2}})
        attention([=](SdpaCase &c) { c.query_heads = heads, c.key_heads = key_heads; });
    attention([](SdpaCase &c) {
        c.softcap = 3, c.bias = "b1ij", c.hole = option_sets::minus_infinity, c.alibi = Alibi::per_head, c.mask = "hij";
        c.sinks = true, c.dropout = {0.4, 5, 1}, c.causal = Causal::bottom_right, c.valid_lens = {6, 3};
    });
    // Each projection and weight on and off.
    for (unsigned on = 0; on < 16; on++)
        all.push_back([=](AdditiveBackwardCase &c) {
            c.forward.w_query = on & 1, c.forward.w_key = on & 2, c.forward.w_score = on & 4;
            c.forward.b_query = c.forward.w_query && on & 8, c.forward.b_key = c.forward.w_key && !(on & 8);
        });
    return all;
}

// Gradients by name, in the order of each_gradient.
using Gradients = std::vector<std::vector<double>>;
void check_differences(AdditiveBackwardArrays<double> &a, const Gradients &gradients, const std::function<double()> &loss,
                       std::size_t most) {
    std::mt19937 random(a.f().seed);
    auto &f = a.forward;
    auto &b = f.base;
    std::size_t n = 0;
    INFO(describe(a.the));
    a.each_gradient([&](const std::string &name, auto &, auto) {
        const std::vector<double> &gradient = gradients[n++];
        const auto check = [&](auto &array) {
            CHECK(difference_defect(differenced(name, array, gradient, loss), most, random) == "");
        };
        if (name == "query") check(b.query);
        if (name == "key") check(b.key);
        if (name == "value") check(b.value);
        if (name == "w_query") check(f.w_query);
        if (name == "w_key") check(f.w_key);
        if (name == "b_query") check(f.b_query);
        if (name == "b_key") check(f.b_key);
        if (name == "w_score") check(f.w_score);
        if (name == "bias") check(b.bias);
        if (name == "alibi_slopes" && a.f().alibi > Alibi::standard) check(b.slopes);
        if (name == "sinks") check(b.sinks);
    });
}
// Rounds slopes and sinks so that central_difference can move them exactly.
void round_floats(AdditiveBackwardArrays<double> &a) {
    for (auto *array : {&a.forward.base.slopes, &a.forward.base.sinks})
        array->each([](float &x) { x = std::round(x * 4096) / 4096; });
}

void check_additive_definition(const AdditiveBackwardCase &c) {
    AdditiveBackwardArrays<double> a(c);
    round_floats(a);
    const auto query = a.forward.base.query.view(), key = a.forward.base.key.view(), value = a.forward.base.value.view();
    const auto forward = [&] { return additive_reference<double, double>(query, key, value, a.options()); };
    const auto result = forward();
    const auto store = [](const std::vector<double> &from, Array<double> &to) {
        std::size_t n = 0;
        to.each([&](double &x) { x = from[n++]; });
    };
    store(result.out, a.forward.base.out), store(result.lse, a.forward.base.lse);
    const auto exact = a.reference<long double>();
    Gradients gradients;
    a.each_gradient(
        [&](const char *, auto &, auto member) { gradients.emplace_back(member(exact).begin(), member(exact).end()); });
    check_differences(
        a, gradients,
        [&] {
            const auto moved = forward();
            return loss_of(a, moved.out, moved.lse);
        },
        8);
}
void check_library(attune::Context &context, const AdditiveBackwardCase &c, std::size_t most) {
    AdditiveBackwardArrays<double> a(c);
    round_floats(a);
    INFO(describe(c));
    attune::Status status = a.run_forward(context);
    if (status.ok()) status = a.run(context);
    INFO(status.message());
    REQUIRE(status.ok());
    Gradients gradients;
    a.each_gradient([&](const char *, auto &array, auto) {
        const auto values = array.values();
        gradients.emplace_back(values.begin(), values.end());
    });
    check_differences(
        a, gradients,
        [&] {
            if (!a.run_forward(context).ok()) return std::nan("");
            return loss_of(a, a.forward.base.out.values(), a.forward.base.lse.values());
        },
        most);
}
}  // namespace

TEST_CASE("additive gradients: the definition is the central differences of the forward's", "[additive_backward][semantics]") {
    unsigned seed = 1;
    for (const SetCase &set : additive_options()) {
        AdditiveBackwardCase c = additive_case(seed++);
        set(c);
        check_additive_definition(c);
    }
}

TEST_CASE("additive gradients: central differences under every mask and option", "[additive_backward][semantics]") {
    attune::Context context;
    unsigned seed = 1;
    for (const SetCase &set : additive_options()) {
        AdditiveBackwardCase c = additive_case(seed++);
        set(c);
        check_library(context, c, 60);
    }
}

TEST_CASE("additive gradients: central differences of several tiles", "[additive_backward][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 50;
    for (const auto &[queries, keys] : {std::pair(1, 67), {67, 1}, {65, 131}, {131, 67}})
        for (bool scored : {false, true}) {
            AdditiveBackwardCase c = additive_case(seed++);
            SdpaCase &attention = c.forward.attention;
            attention.queries = queries, attention.keys = keys, attention.value_dim = 11, c.forward.hidden = 17;
            attention.causal = scored ? Causal::none : Causal::bottom_right;
            if (scored) {
                attention.valid_lens = {std::int32_t(keys), std::int32_t(keys / 2)}, attention.bias = "1hij";
                attention.alibi = Alibi::per_head, attention.softcap = 4, attention.sinks = true;
                attention.dropout = {0.2, attention.seed, 0};
            }
            check_library(context, c, 10);
        }
}
