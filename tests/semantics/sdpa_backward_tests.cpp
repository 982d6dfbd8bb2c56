// SPDX-License-Identifier: MIT
// Gradients of attention equal the central differences of the forward pass, for every input, under every option.
// docs/conventions.md rows 4, 10, 12, 16, 24, 25, 26 and 35.
#include "tests/support/option_sets.h"
#include "tests/support/sdpa_differences.h"

using namespace attune_test;
using attune::Causal, attune::Score;

namespace {
using option_sets::minus_infinity;

std::vector<SetOption> masks() {
    std::vector<SetOption> all;
    for (const auto &set :
         {option_sets::causal_masks(), option_sets::window_masks(), option_sets::length_masks(), option_sets::boolean_masks()})
        all.insert(all.end(), set.begin(), set.end());
    // Two rows without keys.
    all.push_back([](SdpaCase &c) { c.causal = Causal::bottom_right, c.queries = 7, c.keys = 5; });
    return all;
}
std::vector<SetOption> options() {
    std::vector<SetOption> all;
    for (const char *shape : {"bhij", "hij", "ij", "j", "i1", "b11j", "1h1j", "b1ij", "1h11", "1111", "bh11", "b1i1"})
        all.push_back([shape](SdpaCase &c) { c.bias = shape; });
    all.push_back([](SdpaCase &c) { c.bias = "hij", c.hole = minus_infinity, c.strided_masks = true; });
    all.push_back([](SdpaCase &c) { c.bias = "ij", c.hole = -1e9, c.causal = Causal::bottom_right; });
    for (Alibi alibi : {Alibi::standard, Alibi::per_head, Alibi::per_batch})
        for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right})
            all.push_back([=](SdpaCase &c) { c.alibi = alibi, c.causal = causal, c.strided_masks = causal == Causal::none; });
    all.push_back([](SdpaCase &c) { c.alibi = Alibi::per_head, c.query_heads = 6, c.offset = 2; });
    for (double cap : {0.7, 5.0}) all.push_back([=](SdpaCase &c) { c.softcap = cap; });
    all.push_back([](SdpaCase &c) { c.sinks = true; });
    all.push_back([](SdpaCase &c) { c.sinks = true, c.valid_lens = {0, 4}; });
    for (double p : {0.3, 0.9, 1.0}) all.push_back([=](SdpaCase &c) { c.dropout = {p, 0xfedcba9876543210ull, 2}; });
    all.push_back([](SdpaCase &c) { c.scale = -0.8; });
    all.push_back([](SdpaCase &c) { c.scale = 0.0; });
    for (auto [heads, key_heads] : {std::pair(1, 1), {2, 2}, {3, 1}, {6, 2}})
        all.push_back([=](SdpaCase &c) { c.query_heads = heads, c.key_heads = key_heads, c.head_dim = 5, c.value_dim = 2; });
    const SetOption everything = [](SdpaCase &c) {
        c.softcap = 3, c.bias = "b1ij", c.hole = minus_infinity, c.alibi = Alibi::per_head, c.mask = "hij", c.sinks = true;
        c.dropout = {0.4, 5, 1};
    };
    all.push_back(everything);
    all.push_back([=](SdpaCase &c) {
        everything(c), c.causal = Causal::bottom_right, c.valid_lens = {6, 3}, c.strided_masks = c.strided_lse = true;
    });
    return all;
}
void check_definition(const SdpaBackwardCase &c) {
    SdpaBackwardArrays<double> a(c);
    round_floats(a);
    const auto query = a.forward.query.view(), key = a.forward.key.view(), value = a.forward.value.view();
    const auto forward = sdpa_reference<long double, double>(query, key, value, a.options());
    std::size_t n = 0, row = 0;
    a.forward.out.each([&](double &x) { x = double(forward.out[n++]); });
    a.forward.lse.each([&](double &x) { x = double(forward.lse[row++]); });
    const auto exact = a.reference<long double>();
    const auto doubles = [](const std::vector<long double> &x) { return std::vector<double>(x.begin(), x.end()); };
    check_differences(
        a,
        {doubles(exact.query), doubles(exact.key), doubles(exact.value), doubles(exact.bias), doubles(exact.alibi_slopes),
         doubles(exact.sinks), doubles(exact.score_weight)},
        [&] {
            const auto forward = sdpa_reference<double, double>(query, key, value, a.options());
            return loss_of(a, forward.out, forward.lse);
        },
        12);
}
}  // namespace

TEST_CASE("gradients: the definition is the central differences of the forward's", "[sdpa_backward][semantics]") {
    for (const auto &set :
         {masks(), options(), option_sets::options_of_scores({Score::general, Score::cosine, Score::gaussian})})
        for_each_small_case(set, check_definition);
}
TEST_CASE("gradients: central differences under every mask", "[sdpa_backward][semantics]") { check_small_cases(masks()); }
TEST_CASE("gradients: central differences under every option", "[sdpa_backward][semantics]") { check_small_cases(options()); }

TEST_CASE("gradients: central differences of several tiles", "[sdpa_backward][semantics]") {
    attune::Context context({.threads = 2});
    unsigned seed = 50;
    for (const auto &[queries, keys] : {std::pair(1, 67), {67, 1}, {65, 131}, {131, 67}})
        for (const SetOption &set_option :
             {SetOption([](SdpaCase &c) { c.causal = Causal::bottom_right; }), SetOption([](SdpaCase &c) {
                  c.valid_lens = {std::int32_t(c.keys), std::int32_t(c.keys / 2)}, c.bias = "1hij", c.alibi = Alibi::per_head;
                  c.softcap = 4, c.sinks = true, c.dropout = {0.2, c.seed, 0};
              })}) {
            SdpaCase c = small_case(seed++);
            c.queries = queries, c.keys = keys, c.head_dim = 17, c.value_dim = 11;
            set_option(c);
            check_library_gradients(context, {.forward = c, .grad_lse = true}, 15);
        }
}

TEST_CASE("gradients: tensors of rank 3 and 2 are one head and one entry", "[sdpa_backward][semantics]") {
    attune::Context context;
    for (int rank : {3, 2}) {
        SdpaBackwardCase c{.forward = {.batch = rank == 3 ? 2 : 1, .query_heads = 1, .key_heads = 1}, .grad_lse = true};
        c.forward.bias = "1111", c.forward.mask = "ij", c.forward.causal = Causal::bottom_right;
        SdpaBackwardArrays<float> four(c), fewer(c);
        REQUIRE(four.run_forward(context).ok());
        REQUIRE(fewer.run_forward(context).ok());
        REQUIRE(four.run(context).ok());
        // Views without the heads, and for rank 2 without the batch.
        const auto flat = [&](auto v) {
            const int from = 4 - rank;
            for (int n = 1; n < v.rank - from; n++) v.extent[n] = v.extent[n + from], v.stride[n] = v.stride[n + from];
            if (rank == 2) v.extent[0] = v.extent[from], v.stride[0] = v.stride[from];
            v.rank -= from;
            return v;
        };
        attune::SdpaForward forward = fewer.results();
        forward = {flat(forward.out), flat(forward.lse), flat(forward.grad_out), flat(forward.grad_lse)};
        attune::SdpaGradients gradients = fewer.gradients();
        gradients.query = flat(gradients.query), gradients.key = flat(gradients.key), gradients.value = flat(gradients.value);
        attune::SdpaOptions options = fewer.options();
        options.bias.rank = gradients.bias.rank = rank;
        const auto status = attune::scaled_dot_product_attention_backward(
            context, flat(fewer.forward.query.view()), flat(fewer.forward.key.view()), flat(fewer.forward.value.view()),
            forward, gradients, options);
        INFO("rank " << rank << ' ' << status.message());
        CHECK(status.ok());
        CHECK(fewer.bits() == four.bits());
    }
}
