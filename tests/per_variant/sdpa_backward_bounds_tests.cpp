// SPDX-License-Identifier: MIT
// Every variant of the gradients on arrays that end, or begin, at a protected page.
#include "tests/support/backward_grid.h"
#include "tests/support/fenced.h"

using namespace attune_test;

namespace {
template<typename T>
void check_fenced(attune::Context &context, const SdpaBackwardCase &c, const attune::VariantInfo &v, bool at_end) {
    INFO(describe(c) << (at_end ? " at the end of a page" : " at the start of a page"));
    SdpaBackwardArrays<T> a(c);
    REQUIRE(a.run_forward(context).ok());
    REQUIRE(a.run(context, v.name).ok());
    const auto fenced = [&](auto &array) { return Fenced(array.values(), at_end); };
    auto query = fenced(a.forward.query), key = fenced(a.forward.key), value = fenced(a.forward.value),
         out = fenced(a.forward.out), grad_out = fenced(a.grad_out), bias = fenced(a.forward.bias);
    auto lse = fenced(a.forward.lse), grad_lse = fenced(a.grad_lse);
    auto slopes = fenced(a.forward.slopes), sinks = fenced(a.forward.sinks);
    const auto mask_values = a.forward.mask.values();
    Fenced<unsigned char> mask(std::vector<unsigned char>(mask_values.begin(), mask_values.end()), at_end);
    Fenced<std::int32_t> lens(c.forward.valid_lens, at_end), offsets(c.forward.offsets, at_end);
    const auto empty = [&](auto &array) {
        auto values = array.values();
        std::fill(values.begin(), values.end(), 7);
        return Fenced(values, at_end);
    };
    auto grad_query = empty(a.grad_query), grad_key = empty(a.grad_key), grad_value = empty(a.grad_value),
         grad_bias = empty(a.grad_bias);
    auto grad_slopes = empty(a.grad_slopes), grad_sinks = empty(a.grad_sinks);

    const auto move = [](auto &view, auto &to) {
        if (view.given()) view.data = to.data();
    };
    attune::SdpaForward forward = a.results();
    move(forward.out, out), move(forward.lse, lse), move(forward.grad_out, grad_out), move(forward.grad_lse, grad_lse);
    attune::SdpaGradients gradients = a.gradients();
    move(gradients.query, grad_query), move(gradients.key, grad_key), move(gradients.value, grad_value);
    move(gradients.bias, grad_bias), move(gradients.alibi_slopes, grad_slopes), move(gradients.sinks, grad_sinks);
    attune::SdpaOptions options = a.options(v.name);
    move(options.valid_lens, lens), move(options.offsets, offsets), move(options.bias, bias), move(options.mask, mask);
    move(options.alibi_slopes, slopes), move(options.sinks, sinks);
    const auto at = [](attune::View view, auto &to) { return view.data = to.data(), view; };
    const auto status =
        attune::scaled_dot_product_attention_backward(context, at(a.forward.query.view(), query), at(a.forward.key.view(), key),
                                                      at(a.forward.value.view(), value), forward, gradients, options);
    INFO(status.message());
    CHECK(status.ok());
    CHECK(same_bits(grad_query.values(), a.grad_query.values()));
    CHECK(same_bits(grad_key.values(), a.grad_key.values()));
    CHECK(same_bits(grad_value.values(), a.grad_value.values()));
    CHECK(same_bits(grad_bias.values(), a.grad_bias.values()));
    CHECK(same_bits(grad_slopes.values(), a.grad_slopes.values()));
    CHECK(same_bits(grad_sinks.values(), a.grad_sinks.values()));
}
}  // namespace

TEST_CASE("gradients by variant: nothing is read or written beyond the arrays", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        unsigned seed = 1;
        for (const attune::VariantInfo &v : backward_variants<T>())
            for (const auto &[head_dim, value_dim] : head_sizes(v))
                for (const auto &[queries, keys] : {std::pair(1, 1), {1, 65}, {67, 3}, {64, 64}})
                    for (bool at_end : {true, false}) {
                        SdpaBackwardCase c{.forward = {.batch = 1, .query_heads = 2, .key_heads = 1, .queries = queries}};
                        c.forward.keys = keys, c.forward.head_dim = head_dim, c.forward.value_dim = value_dim;
                        c.forward.seed = seed++, c.grad_lse = seed % 2;
                        if (seed % 2) c.forward.causal = attune::Causal::offset, c.forward.offsets = {2};
                        if (seed % 3 == 0) c.forward.valid_lens.assign(std::size_t(queries), std::int32_t(keys));
                        if (v.kind != "plain") {
                            constexpr const char *shapes[] = {"bhij", "j", "i1", "1hij", "1111"};
                            c.forward.bias = shapes[seed % 5], c.forward.mask = shapes[seed / 2 % 5], c.forward.sinks = true;
                            c.forward.alibi = Alibi(seed % 4);
                        }
                        if (v.kind == "training") c.forward.dropout = {0.25, seed, 0};
                        check_fenced<T>(context, c, v, at_end);
                    }
    });
}
