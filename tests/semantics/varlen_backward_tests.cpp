// SPDX-License-Identifier: MIT
// variable_length_attention_backward: gradients of the sequences of a packed batch, each by itself.
#include "tests/support/backward_grid.h"
#include "tests/support/counting_allocator.h"
#include "tests/support/packed_backward_case.h"

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::View;

namespace {
// Awkward lengths: none, one, primes, both sides of tiles; a sequence that is most of the work.
const PackedCase awkward{.queries = {0, 1, 17, 31, 5, 0, 33, 2}, .keys = {4, 1, 16, 70, 0, 0, 33, 65}, .head_dim = 17};

struct Options {
    const char *name;
    attune::SdpaOptions options;
};
// Options of the awkward sequences, which point into static memory.
std::vector<Options> options_of_awkward() {
    static const std::vector<std::int32_t> offsets = {3, 0, -2, 40, 1, 2, 0, 60};
    static std::vector<float> slopes, sinks = {0.5f, -1, 2, 0};
    if (slopes.empty())
        for (int n = 0; n < 32; n++) slopes.push_back(float(n % 11) / 30);
    const ConstView of_heads(slopes.data(), {4}), of_sequences(slopes.data(), {8, 4}), sink(sinks.data(), {4});
    return {{"no options", {}},
            {"top left", {.causal = Causal::top_left}},
            {"bottom right, window", {.causal = Causal::bottom_right, .window = {12, 0}}},
            {"softcap, window", {.softcap = 3, .window = {3, 5}}},
            {"standard slopes", {.alibi = true, .causal = Causal::bottom_right}},
            {"slopes of heads, sinks", {.alibi_slopes = of_heads, .sinks = sink}},
            {"slopes of sequences, offsets",
             {.alibi_slopes = of_sequences, .causal = Causal::offset, .offsets = ConstView(offsets.data(), {8})}},
            {"sinks, scale, offset", {.scale = 0.3, .causal = Causal::offset, .offset = 4, .sinks = sink}}};
}

template<typename T> void against_reference(const PackedCase &c) {
    attune::Context context({.threads = 2});
    for (const auto &[name, options] : options_of_awkward()) {
        PackedBackwardArrays<T> a(c, options);
        INFO(name << ", " << describe(c));
        REQUIRE(a.run_forward(context).ok());
        const attune::Status status = a.run(context);
        INFO(status.message());
        REQUIRE(status.ok());
        CHECK(defect(a) == "");
    }
}
}  // namespace

TEST_CASE("variable_length_backward: against the definition of the gradients", "[varlen][semantics]") {
    PackedCase c = awkward;
    for (unsigned seed : {1u, 2u}) {
        c.seed = seed, c.heads_first = seed == 2, c.value_dim = seed == 1 ? 16 : 21;
        against_reference<float>(c);
        against_reference<double>(c);
    }
    c.key_heads = 4;
    against_reference<float>(c);
    c.key_heads = 1;
    against_reference<double>(c);
}

TEST_CASE("variable_length_backward: against the definition of the gradients, in 16 bits", "[varlen][semantics]") {
    against_reference<BFloat16>(awkward);
    against_reference<Float16>(awkward);
}

TEST_CASE("variable_length_backward: a sequence has the bits of its own call, whatever the options", "[varlen]") {
    attune::Context two({.threads = 2}), seven({.threads = 7});
    for (unsigned seed = 1; seed <= 32; seed++) {
        const PackedCase c = random_packed_case(seed);
        OptionsOfSequences made;
        const attune::SdpaOptions options = made.options(seed, 9, c.query_heads);
        check_packed_backward<float>(seed % 2 ? two : seven, c, options);
        if (seed % 4 == 3) check_packed_backward<double>(two, c, options);
        if (options.score != attune::Score::dot_product) continue;
        if (seed % 4 == 1) check_packed_backward<BFloat16>(seven, c, options);
        if (seed % 4 == 2) check_packed_backward<Float16>(two, c, options);
    }
}

TEST_CASE("variable_length_backward: one sequence is most of the work", "[varlen]") {
    for (int threads : {1, 2, 3, 7}) {
        attune::Context context({.threads = threads});
        check_packed_backward<float>(
            context, {.queries = {1, 700, 1, 1, 40, 5}, .keys = {900, 700, 1, 1500, 40, 800}, .head_dim = 64, .value_dim = 64},
            {.causal = Causal::bottom_right});
    }
}

TEST_CASE("variable_length_backward: sequences of one length are a dense batch, dropout included", "[varlen][dropout]") {
    attune::Context context({.threads = 2});
    const std::vector<std::int32_t> lengths(5, 45);
    const auto batched = [](View v) {
        const bool lse = v.rank == 2;
        View b = v;
        b.rank = lse ? 3 : 4;
        const int row = lse ? 1 : 0, head = lse ? 0 : 1;
        b.extent[0] = 5, b.stride[0] = 45 * v.stride[row];
        b.extent[1] = v.extent[head], b.stride[1] = v.stride[head];
        b.extent[2] = 45, b.stride[2] = v.stride[row];
        if (!lse) b.extent[3] = v.extent[2], b.stride[3] = 1;
        return b;
    };
    for (double p : {0., 0.3, 1.}) {
        const PackedCase c{.queries = lengths, .keys = lengths, .spare_rows = 0};
        const attune::SdpaOptions options{.causal = Causal::top_left, .dropout = {p, 11, 2}};
        PackedBackwardArrays<float> packed(c, options), dense(c, options);
        REQUIRE(packed.run_forward(context).ok());
        REQUIRE(dense.run_forward(context).ok());
        REQUIRE(packed.run(context).ok());
        attune::SdpaGradients g;
        g.query = batched(dense.grad_query.view()), g.key = batched(dense.grad_key.view());
        g.value = batched(dense.grad_value.view());
        const attune::SdpaForward f{batched(dense.forward.out.view()), batched(dense.forward.lse.view()),
                                    batched(dense.grad_out.view()), batched(dense.grad_lse.view())};
        const attune::Status status = attune::scaled_dot_product_attention_backward(
            context, batched(dense.forward.query.view()), batched(dense.forward.key.view()),
            batched(dense.forward.value.view()), f, g, options);
        INFO("p " << p << ' ' << status.message());
        REQUIRE(status.ok());
        CHECK(packed.bits() == dense.bits());
    }
}

TEST_CASE("variable_length_backward: a batch of one sequence has the bits of the dense call in all gradients", "[varlen]") {
    attune::Context context({.threads = 2});
    const std::vector<float> sinks = {1, 0, -1, 2};
    const attune::SdpaOptions options{.alibi = true, .causal = Causal::bottom_right, .sinks = ConstView(sinks.data(), {4})};
    PackedBackwardArrays<float> packed({.queries = {61}, .keys = {83}}, options),
        dense({.queries = {61}, .keys = {83}}, options);
    REQUIRE(packed.run_forward(context).ok());
    REQUIRE(dense.run_forward(context).ok());
    REQUIRE(packed.run(context).ok());
    const SdpaBackwardInputs in = dense.inputs_alone(0);
    attune::SdpaGradients g = dense.gradients();
    g.query = dense.forward.of_queries(g.query, 0), g.key = dense.forward.of_keys(g.key, 0);
    g.value = dense.forward.of_keys(g.value, 0);
    REQUIRE(attune::scaled_dot_product_attention_backward(context, in.query, in.key, in.value, in.forward, g, in.options).ok());
    CHECK(packed.bits() == dense.bits());
}

TEST_CASE("variable_length_backward: each subset of the gradients has the bits that all of them have", "[varlen]") {
    attune::Context context({.threads = 3});
    const auto options = options_of_awkward()[5].options;
    PackedBackwardArrays<float> all(awkward, options);
    REQUIRE(all.run_forward(context).ok());
    REQUIRE(all.run(context).ok());
    for (unsigned wanted : {0u, unsigned(want_query), unsigned(want_key), unsigned(want_value), unsigned(want_slopes),
                            unsigned(want_sinks), unsigned(want_query | want_sinks), unsigned(want_key | want_slopes)}) {
        INFO("wanted " << wanted);
        PackedBackwardArrays<float> some(awkward, options);
        REQUIRE(some.run_forward(context).ok());
        REQUIRE(some.run(context, wanted).ok());
        CHECK(some.bits(wanted) == all.bits(wanted));
        some.each_gradient([&](const char *name, unsigned which, auto &array, std::int64_t, auto) {
            INFO(name);
            if (!(wanted & which)) CHECK(array.untouched());
        });
    }
}

TEST_CASE("variable_length_backward: empty sequences and batches", "[varlen][semantics]") {
    attune::Context context({.threads = 2});
    const std::vector<float> slopes(12, 0.1f), sinks = {1, 2, 3, 4};
    const attune::SdpaOptions shared{.alibi_slopes = ConstView(slopes.data(), {4}), .sinks = ConstView(sinks.data(), {4})};
    check_packed_backward<float>(context, {.queries = {0, 3, 0}, .keys = {4, 0, 0}}, shared);
    check_packed_backward<float>(context, {.queries = {0, 3, 0}, .keys = {4, 0, 0}},
                                 {.alibi_slopes = ConstView(slopes.data(), {3, 4})});
    check_packed_backward<float>(context, {.queries = {0, 0}, .keys = {0, 7}});
    check_packed_backward<float>(context, {.queries = {}, .keys = {}});
    CHECK(context.last_variant().empty());
    check_packed_backward<float>(context, {.queries = {}, .keys = {}, .spare_rows = 0}, shared);
    check_packed_backward<float>(context, {.queries = {0}, .keys = {0}, .spare_rows = 0});
    check_packed_backward<float>(context, {.queries = {}, .keys = {}}, {.alibi_slopes = ConstView(slopes.data(), {0, 4})});
    // Keys without queries and queries without keys have gradients of 0, slopes and sinks without pairs too.
    PackedBackwardArrays<float> a({.queries = {0, 2}, .keys = {5, 0}, .spare_rows = 0}, shared, false);
    REQUIRE(a.run_forward(context).ok());
    REQUIRE(a.run(context).ok());
    a.each_gradient([&](const char *name, unsigned, auto &array, std::int64_t, auto) {
        INFO(name);
        for (float x : array.values()) CHECK(x == 0);
    });
}

TEST_CASE("variable_length_backward: the same bits by every variant that is forced", "[varlen][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_backward([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int32_t tile = tile_of(v), kv_block = kv_block_of(v);
        check_packed_backward<decltype(zero)>(context,
                                              {.queries = {tile, 1, 0, tile + 1, 3},
                                               .keys = {kv_block + 1, 2 * kv_block, 5, tile + 1, 0},
                                               .head_dim = head_dim,
                                               .value_dim = value_dim},
                                              {.causal = Causal::bottom_right, .variant = v.name});
        CHECK(context.last_variant() == v.name);
    });
}

TEST_CASE("variable_length_backward: memory that runs out is answered, and the Context serves the next call",
          "[varlen][memory]") {
    const PackedCase c{.queries = {200, 1, 150, 90}, .keys = {200, 300, 150, 90}};
    const std::vector<float> sinks = {1, 0, -1, 2};
    const attune::SdpaOptions options{.alibi = true, .sinks = ConstView(sinks.data(), {4})};
    attune::Context usual;
    PackedBackwardArrays<float> right(c, options);
    REQUIRE(right.run_forward(usual).ok());
    REQUIRE(right.run(usual).ok());
    int refused = 0;
    for (int fail_at = 0;; fail_at++) {
        PackedBackwardArrays<float> a(c, options);
        REQUIRE(a.run_forward(usual).ok());
        CountingAllocator allocator;
        allocator.fail_at = fail_at;
        attune::Context context({.threads = 2, .allocator = allocator.hook()});
        const attune::Status status = a.run(context);
        const bool asked = allocator.requests > fail_at;
        INFO("request " << fail_at << ": " << status.message());
        // Kernels also ask for blocks of no bytes, whose failure they survive.
        if (status.ok())
            CHECK(a.bits() == right.bits());
        else
            CHECK(status.code() == attune::StatusCode::out_of_memory);
        if (!asked) break;
        refused += !status.ok();
        allocator.fail_at = -1;
        CHECK(a.run(context).ok());
        context.release_scratch();
        CHECK(allocator.live == 0);
        CHECK(allocator.defects == 0);
    }
    CHECK(refused > 0);
}
