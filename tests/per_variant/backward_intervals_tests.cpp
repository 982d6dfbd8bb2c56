// SPDX-License-Identifier: MIT
// Gradients where masks leave out whole tiles of keys or queries: every window, causal rule and length together, for each
// score. docs/conventions.md rows 2, 5, 6 and 35.
#include "tests/support/additive_backward_case.h"
#include "tests/support/backward_grid.h"

using namespace attune_test;
using attune::Causal;

namespace {
// Calls f(case) for each combination over several tiles; a third of the cases have a bias and slopes, whose gradients have
// kernels of their own.
template<typename F> void for_each_interval(const F &f) {
    SdpaCase c{.batch = 1, .query_heads = 2, .key_heads = 1, .head_dim = 3, .value_dim = 5, .seed = 1};
    for (const auto &[queries, keys] : {std::pair(3, 195), {67, 131}, {131, 70}})
        for (const attune::Window &window : {attune::Window{}, {0, 0}, {4, -1}, {-1, 4}, {70, 3}, {3, 70}})
            for (Causal causal : {Causal::none, Causal::top_left, Causal::bottom_right, Causal::offset})
                for (std::int32_t length : {keys, 66, 5}) {
                    c.queries = queries, c.keys = keys, c.window = window, c.causal = causal, c.valid_lens = {length};
                    c.offset = causal == Causal::offset ? std::optional<std::int64_t>(40) : std::nullopt;
                    const bool captures = ++c.seed % 3 == 0;
                    c.bias = captures ? "hij" : "", c.alibi = captures ? Alibi::per_head : Alibi::none;
                    f(c);
                }
}
}  // namespace

TEST_CASE("gradients by variant: windows, causal rules and lengths over several tiles", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_interval([&](const SdpaCase &forward) {
        const SdpaBackwardCase c{.forward = forward, .grad_lse = forward.seed % 2 == 0};
        switch (forward.seed % 4) {
        case 0: return check_backward<double>(context, c);
        case 1: return check_backward<BFloat16>(context, c);
        case 2: return check_backward<Float16>(context, c);
        default: return check_backward<float>(context, c);
        }
    });
}

TEST_CASE("gradients of cosine and gaussian scores: windows, causal rules and lengths over several tiles",
          "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_interval([&](const SdpaCase &forward) {
        SdpaBackwardCase c{.forward = forward, .grad_lse = forward.seed % 2 == 0};
        for (attune::Score score : {attune::Score::cosine, attune::Score::gaussian}) {
            c.forward.score = score;
            forward.seed % 5 ? check_dispatched<float>(context, c) : check_dispatched<double>(context, c);
        }
    });
}

TEST_CASE("additive gradients: windows, causal rules and lengths over several tiles", "[additive_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_interval([&](const SdpaCase &forward) {
        AdditiveBackwardCase c{.forward = {.attention = forward}, .grad_lse = forward.seed % 2 == 0};
        c.forward.hidden = 5, c.forward.w_query = c.forward.w_key = forward.seed % 2;
        forward.seed % 5 ? check_additive<float>(context, c, {}) : check_additive<double>(context, c, {});
    });
}

TEST_CASE("gradients: a window that leaves few of many keys, and slopes", "[sdpa_backward][semantics]") {
    attune::Context context(in_fenced_scratch(1));
    SdpaBackwardCase c{.forward = {.batch = 1, .query_heads = 1, .key_heads = 1, .queries = 4290, .keys = 4250}};
    c.forward.head_dim = 2, c.forward.value_dim = 1, c.forward.window = {20, 7}, c.forward.alibi = Alibi::per_head;
    c.forward.offset = 3;
    check_dispatched<float>(context, c);
}
