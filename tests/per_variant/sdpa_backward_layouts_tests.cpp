// SPDX-License-Identifier: MIT
// Every variant of the gradients on arrays of every layout, whose gaps are poisoned; slices of one buffer.
#include "tests/support/backward_grid.h"

using namespace attune_test;

namespace {
template<typename F> void for_each_base(const F &f) {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        for (const auto &[head_dim, value_dim] : backward_head_sizes<T>())
            for (const auto &[queries, keys] : {std::pair(1, 67), {34, 35}}) {
                SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = queries}, .grad_lse = true};
                c.forward.keys = keys, c.forward.head_dim = head_dim, c.forward.value_dim = value_dim;
                c.forward.causal = attune::Causal::bottom_right, c.forward.strided_lse = true;
                f(zero, context, c);
            }
    });
}
}  // namespace

TEST_CASE("gradients by variant: one layout for all arrays", "[sdpa_backward][per_variant]") {
    for_each_base([](auto zero, attune::Context &context, SdpaBackwardCase c) {
        for (Layout l : {Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed}) {
            c.forward.query_layout = c.forward.key_layout = c.forward.value_layout = c.forward.out_layout = c.grad_layout = l;
            c.forward.seed++;
            check_backward<decltype(zero)>(context, c);
        }
    });
}

TEST_CASE("gradients by variant: layouts that differ between the arrays", "[sdpa_backward][per_variant]") {
    using L = Layout;
    const L mixes[][5] = {{L::bshd, L::dense, L::padded, L::shifted, L::fused},
                          {L::broadcast, L::fused, L::bshd, L::reversed, L::dense},
                          {L::padded, L::broadcast, L::broadcast, L::bshd, L::reversed},
                          {L::reversed, L::shifted, L::broadcast, L::fused, L::bshd}};
    for_each_base([&](auto zero, attune::Context &context, SdpaBackwardCase c) {
        SdpaCase &f = c.forward;
        for (const auto &mix : mixes) {
            f.query_layout = mix[0], f.key_layout = mix[1], f.value_layout = mix[2], f.out_layout = mix[3];
            c.grad_layout = mix[4], f.seed++;
            check_backward<decltype(zero)>(context, c);
        }
    });
}

TEST_CASE("gradients by variant: strided masks, biases, slopes, sinks and their gradients", "[sdpa_backward][per_variant]") {
    for_each_base([](auto zero, attune::Context &context, SdpaBackwardCase c) {
        SdpaCase &f = c.forward;
        f.strided_masks = f.sinks = true, f.alibi = Alibi::per_batch, f.mask = "b1ij";
        for (const char *bias : {"bhij", "hij", "1hi1", "b11j"}) {
            f.bias = bias, f.seed++;
            check_backward<decltype(zero)>(context, c);
        }
    });
}

TEST_CASE("gradients by variant: tensors in one buffer, and their gradients in another", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        // (B, S, 4, H, D): slots of the third axis are query, key, value and grad_out; gradients in the first three.
        const std::int64_t batch = 2, heads = 2, d = 64, s = 35;
        std::vector<T> buffer(std::size_t(batch * s * 4 * heads * d)), gradients(buffer.size(), T(7));
        std::mt19937 random(7);
        std::uniform_real_distribution<double> uniform(-1.7, 1.7);
        for (T &x : buffer) x = T(uniform(random));
        const auto slot = [&](std::vector<T> &of, int n) {
            return attune::View(of.data() + n * heads * d, {batch, heads, s, d}, {s * 4 * heads * d, d, 4 * heads * d, 1});
        };
        SdpaBackwardCase c{.forward = {.batch = batch, .queries = s, .keys = s}};
        SdpaBackwardArrays<T> dense(c);
        int n = 0;
        for (Array<T> *array : {&dense.forward.query, &dense.forward.key, &dense.forward.value, &dense.grad_out}) {
            const attune::View from = slot(buffer, n++);
            for (std::int64_t b = 0; b < batch; b++)
                for (std::int64_t h = 0; h < heads; h++)
                    for (std::int64_t i = 0; i < s; i++)
                        for (std::int64_t e = 0; e < d; e++) (*array)(b, h, i, e) = element<T>(from, b, h, i, e);
        }
        REQUIRE(dense.run_forward(context).ok());
        for (const attune::VariantInfo &v : backward_variants<T>()) {
            if (!fits(v, c.forward)) continue;
            SdpaBackwardArrays<T> expected(dense);
            CHECK(expected.run(context, v.name).ok());
            const auto status = attune::scaled_dot_product_attention_backward(
                context, slot(buffer, 0), slot(buffer, 1), slot(buffer, 2),
                {dense.forward.out.view(), dense.forward.lse.view(), slot(buffer, 3)},
                {slot(gradients, 0), slot(gradients, 1), slot(gradients, 2)}, expected.options(v.name));
            INFO(v.name << ' ' << status.message());
            CHECK(status.ok());
            bool same = true;
            n = 0;
            for (Array<T> *array : {&expected.grad_query, &expected.grad_key, &expected.grad_value}) {
                const attune::View got = slot(gradients, n++);
                for (std::int64_t b = 0; b < batch; b++)
                    for (std::int64_t h = 0; h < heads; h++)
                        for (std::int64_t i = 0; i < s; i++)
                            for (std::int64_t e = 0; e < d; e++)
                                same = same && same_bits((*array)(b, h, i, e), element<T>(got, b, h, i, e));
            }
            const attune::View rest = slot(gradients, 3);
            for (std::int64_t i = 0; i < s; i++) same = same && element<T>(rest, 1, 1, i, d - 1) == T(7);
            CHECK(same);
        }
    });
}
