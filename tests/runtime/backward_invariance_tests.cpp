// SPDX-License-Identifier: MIT
// Bits of gradients depend on the call alone: not on threads, repeats, other batch entries, nor on which gradients are wanted.
// docs/conventions.md row 36.
#include "tests/support/backward_grid.h"
#include <bit>

using namespace attune_test;

namespace {
// A case large enough that the library shares it among threads.
SdpaBackwardCase shared_work(const attune::VariantInfo &v) {
    SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = 150, .keys = 200}, .grad_lse = true};
    std::tie(c.forward.head_dim, c.forward.value_dim) = head_size(v);
    c.forward.causal = attune::Causal::bottom_right;
    if (v.kind != "plain")
        c.forward.softcap = 6, c.forward.bias = "1hij", c.forward.mask = "b1ij", c.forward.alibi = Alibi::per_head,
        c.forward.sinks = true;
    if (v.kind == "training") c.forward.dropout = {0.2, 3, 1};
    return c;
}
// Calls f for each variant of the gradients.
}  // namespace

TEST_CASE("runtime: gradients have the same bits over 1, 2, 3 and 7 threads, and again, for each variant",
          "[sdpa_backward][runtime][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    for_each_backward([&](const attune::VariantInfo &v, auto zero) {
        SdpaBackwardArrays<decltype(zero)> clean(shared_work(v));
        REQUIRE(clean.run_forward(one).ok());
        auto expected = clean;
        INFO(describe(clean.the));
        REQUIRE(expected.run(one, v.name).ok());
        for (attune::Context *context : {&one, &two, &three, &seven, &seven}) {
            auto other = clean;
            CHECK(other.run(*context, v.name).ok());
            INFO("threads " << context->threads());
            CHECK(other.bits() == expected.bits());
        }
    });
}

TEST_CASE("runtime: each subset of the gradients has the bits that all of them have", "[sdpa_backward][runtime][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_backward([&](const attune::VariantInfo &v, auto zero) {
        const SdpaBackwardCase c = shared_work(v);
        SdpaBackwardArrays<decltype(zero)> clean(c);
        REQUIRE(clean.run_forward(context).ok());
        auto all = clean;
        REQUIRE(all.run(context, v.name).ok());
        const unsigned there = v.kind == "plain" ? want_query | want_key | want_value : want_all & ~want_score_weight;
        all.each_gradient([](const char *name, unsigned, auto &array, auto) {
            INFO(name);
            CHECK(array.all_written());
        });
        for (unsigned wanted = 0; wanted <= want_all; wanted++) {
            if (wanted & ~there) continue;
            // Without root, which took three quarters of the time.
            if ((v.dtype != attune::DType::f32 || (v.schedule == "root" && !tests_all())) && std::popcount(wanted) > 1)
                continue;
            auto some = clean;
            const auto status = some.run(context, v.name, wanted);
            INFO("wanted " << wanted << ' ' << status.message());
            CHECK(status.ok());
            CHECK(some.bits(wanted) == all.bits(wanted));
            some.each_gradient([&](const char *name, unsigned which, auto &array, auto) {
                INFO(name);
                if (!(wanted & which)) CHECK(array.untouched());
            });
        }
    });
}

TEST_CASE("runtime: a batch entry alone has the gradients that it has among others", "[sdpa_backward][runtime]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 20, 150})
        for (int kind : {0, 1, 2}) {
            SdpaBackwardCase c{.forward = {.batch = 3, .query_heads = 4, .key_heads = 2, .queries = queries, .keys = 130}};
            c.grad_lse = true;
            if (kind == 1) c.forward.valid_lens = {0, 130, 67}, c.forward.causal = attune::Causal::bottom_right;
            if (kind == 2) c.forward.bias = "bhij", c.forward.alibi = Alibi::per_batch, c.forward.softcap = 5;
            SdpaBackwardArrays<float> all(c);
            INFO(describe(c));
            REQUIRE(all.run_forward(context).ok());
            REQUIRE(all.run(context).ok());
            for (std::int64_t b = 0; b < c.forward.batch; b++) {
                SdpaBackwardArrays<float> alone(all);
                const auto entry = [&](auto view) {
                    using Byte =
                        std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(view.data)>>, const char, char>;
                    if (!view.given()) return view;
                    view.data = static_cast<Byte *>(view.data) + b * view.stride[0] * attune::size_of(view.dtype);
                    view.extent[0] = 1;
                    return view;
                };
                attune::SdpaOptions options = all.options();
                options.valid_lens = entry(options.valid_lens), options.bias = entry(options.bias);
                options.alibi_slopes = entry(options.alibi_slopes);
                attune::SdpaForward forward = all.results();
                forward = {entry(forward.out), entry(forward.lse), entry(forward.grad_out), entry(forward.grad_lse)};
                attune::SdpaGradients gradients = alone.gradients();
                gradients = {entry(gradients.query),
                             entry(gradients.key),
                             entry(gradients.value),
                             entry(gradients.bias),
                             entry(gradients.alibi_slopes),
                             {},
                             {}};
                // Other entries keep their gradients from `all`; those of this entry are spoiled before.
                for (attune::View *view : {&gradients.query, &gradients.key, &gradients.value})
                    *static_cast<float *>(view->data) = 77;
                const auto status = attune::scaled_dot_product_attention_backward(
                    context, entry(all.forward.query.view()), entry(all.forward.key.view()), entry(all.forward.value.view()),
                    forward, gradients, options);
                INFO("entry " << b << ' ' << status.message());
                CHECK(status.ok());
                CHECK(alone.bits() == all.bits());
            }
        }
}

TEST_CASE("runtime: what neighbours in the batch hold does not matter to gradients", "[sdpa_backward][runtime]") {
    attune::Context context({.threads = 2});
    for (std::int64_t queries : {1, 100})
        for (bool scored : {false, true}) {
            SdpaBackwardCase c{.forward = {.batch = 3, .queries = queries, .keys = 150}};
            if (scored) c.forward.bias = "bhij", c.forward.alibi = Alibi::per_batch;
            SdpaBackwardArrays<float> clean(c), spoiled(c);
            for (auto *array : {&spoiled.forward.query, &spoiled.forward.key, &spoiled.forward.value, &spoiled.grad_out})
                for (std::int64_t b : {0, 2}) (*array)(b, 1, 0, 0) = std::nanf("");
            REQUIRE(clean.run_forward(context).ok());
            REQUIRE(spoiled.run_forward(context).ok());
            REQUIRE(clean.run(context).ok());
            REQUIRE(spoiled.run(context).ok());
            const auto middle = [&](Array<float> &array) {
                const auto values = array.values();
                const auto third = std::ptrdiff_t(values.size() / 3);
                return std::vector<float>(values.begin() + third, values.begin() + 2 * third);
            };
            CHECK(same_bits(middle(clean.grad_query), middle(spoiled.grad_query)));
            CHECK(same_bits(middle(clean.grad_key), middle(spoiled.grad_key)));
            CHECK(same_bits(middle(clean.grad_value), middle(spoiled.grad_value)));
            if (!scored) continue;
            CHECK(same_bits(middle(clean.grad_bias), middle(spoiled.grad_bias)));
            std::vector<float> slopes = clean.grad_slopes.values(), others = spoiled.grad_slopes.values();
            CHECK(same_bits(slopes[2], others[2]));
            CHECK(same_bits(slopes[3], others[3]));
        }
}
