// SPDX-License-Identifier: MIT
// variable_length_attention (docs/conventions.md row 19): sequences of a packed batch, each by itself.
#include "tests/support/counting_allocator.h"
#include "tests/support/packed_case.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <thread>

using namespace attune_test;
using attune::Causal, attune::ConstView, attune::View;

TEST_CASE("variable_length: a sequence has the bits of its own call, whatever the options", "[varlen]") {
    attune::Context two({.threads = 2}), seven({.threads = 7});
    for (unsigned seed = 1; seed <= 32; seed++) {
        const PackedCase c = random_packed_case(seed);
        OptionsOfSequences made;
        const attune::SdpaOptions options = made.options(seed, 9, c.query_heads);
        check_packed<float>(seed % 2 ? two : seven, c, options);
        if (seed % 4 == 3) check_packed<double>(two, c, options);
    }
}

TEST_CASE("variable_length: prefill and decode in one batch, of which one sequence is most of the work", "[varlen]") {
    for (int threads : {1, 2, 3, 7}) {
        attune::Context context({.threads = threads});
        check_packed<float>(
            context, {.queries = {1, 700, 1, 1, 40, 5}, .keys = {900, 700, 1, 2500, 40, 800}, .head_dim = 64, .value_dim = 64},
            {.causal = Causal::bottom_right});
        check_packed<float>(context, {.queries = {300, 300, 300}, .keys = {300, 300, 300}, .heads_first = true});
    }
}

TEST_CASE("variable_length: against the definition of attention", "[varlen]") {
    attune::Context context({.threads = 2});
    PackedArrays<float> all({.queries = {5, 0, 1, 33, 4}, .keys = {5, 3, 70, 33, 0}, .value_dim = 24, .seed = 5});
    const attune::SdpaOptions options{.causal = Causal::bottom_right};
    REQUIRE(all.run(context, options).ok());
    for (std::size_t s = 0; s < 5; s++) {
        INFO("sequence " << s);
        const View q = sequence_of(all.query.view(), all.query_ends[s], all.the.queries[s]),
                   k = sequence_of(all.key.view(), all.key_ends[s], all.the.keys[s]),
                   v = sequence_of(all.value.view(), all.key_ends[s], all.the.keys[s]);
        std::vector<float> out, lse;
        for (std::int64_t h = 0; h < 4; h++)
            for (std::int64_t i = all.query_ends[s]; i < all.query_ends[s + 1]; i++) {
                lse.push_back(all.lse.data()[h * all.lse.view().stride[0] + i]);
                for (std::int64_t d = 0; d < 24; d++) out.push_back(all.out(i, h, d));
            }
        const auto reference = sdpa_reference<double, float>(q, k, v, options);
        const auto plain = plain_sdpa<float>(q, k, v, options);
        const Verdict of_out = judge(reference.out, plain.out, out), of_lse = judge(reference.lse, plain.lse, lse);
        INFO(of_out.why << "; lse: " << of_lse.why);
        CHECK(of_out.right);
        CHECK(of_lse.right);
    }
}

TEST_CASE("variable_length: sequences of one length are a dense batch, dropout and slopes included", "[varlen][dropout]") {
    attune::Context context({.threads = 2});
    const std::vector<std::int32_t> lengths(5, 45), offsets = {3, -4, 0, 50, 7};
    std::vector<float> slopes;
    for (int n = 0; n < 20; n++) slopes.push_back(float(n) / 40);
    for (double p : {0., 0.3, 1.}) {
        PackedArrays<float> packed({.queries = lengths, .keys = lengths, .spare_rows = 0}), dense(packed.the);
        attune::SdpaOptions options{.alibi_slopes = ConstView(slopes.data(), {5, 4}),
                                    .causal = Causal::offset,
                                    .offsets = ConstView(offsets.data(), {5}),
                                    .dropout = {p, 11, 2}};
        REQUIRE(packed.run(context, options).ok());
        const auto batched = [](View v, bool lse) {
            const std::int64_t row = lse ? v.stride[1] : v.stride[0], head = lse ? v.stride[0] : v.stride[1];
            View b = v;
            b.rank = lse ? 3 : 4;
            b.extent[0] = 5, b.stride[0] = 45 * row;
            b.extent[1] = lse ? v.extent[0] : v.extent[1], b.stride[1] = head;
            b.extent[2] = 45, b.stride[2] = row;
            if (!lse) b.extent[3] = v.extent[2], b.stride[3] = 1;
            return b;
        };
        options.lse = batched(dense.lse.view(), true);
        const auto status = attune::scaled_dot_product_attention(
            context, batched(packed.query.view(), false), batched(packed.key.view(), false),
            batched(packed.value.view(), false), batched(dense.out.view(), false), options);
        INFO("p " << p << ' ' << status.message());
        REQUIRE(status.ok());
        CHECK(same_bits(packed.out.values(), dense.out.values()));
        CHECK(same_bits(packed.lse.values(), dense.lse.values()));
    }
}

TEST_CASE("variable_length: empty sequences and batches", "[varlen]") {
    attune::Context context({.threads = 2});
    check_packed<float>(context, {.queries = {0, 3, 0}, .keys = {4, 0, 0}});
    check_packed<float>(context, {.queries = {0, 0}, .keys = {0, 7}});
    check_packed<float>(context, {.queries = {}, .keys = {}});
    CHECK(context.last_variant().empty());
    check_packed<float>(context, {.queries = {}, .keys = {}, .spare_rows = 0});
    check_packed<float>(context, {.queries = {0}, .keys = {0}, .spare_rows = 0});
    const std::vector<float> slopes(4), sinks = {1, 2, 3, 4};
    check_packed<float>(context, {.queries = {}, .keys = {}}, {.alibi_slopes = ConstView(slopes.data(), {0, 4})});
    // Queries without keys give 0, and the sink as lse.
    PackedArrays<float> a({.queries = {2}, .keys = {0}, .spare_rows = 0});
    REQUIRE(a.run(context, {.sinks = ConstView(sinks.data(), {4})}).ok());
    for (float x : a.out.values()) CHECK(x == 0);
    CHECK(a.lse.values() == std::vector<float>{1, 1, 2, 2, 3, 3, 4, 4});
}

TEST_CASE("variable_length: the same bits by every variant that is forced", "[varlen][per_variant]") {
    attune::Context context({.threads = 2});
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        const auto [head_dim, value_dim] = head_size(v);
        const std::int32_t tile = tile_of(v), kv_block = kv_block_of(v);
        check_packed<decltype(zero)>(context,
                                     {.queries = {tile, 1, 0, tile + 1, 3},
                                      .keys = {kv_block + 1, 2 * kv_block, 5, tile + 1, 0},
                                      .head_dim = head_dim,
                                      .value_dim = value_dim},
                                     {.causal = Causal::bottom_right, .variant = v.name});
        CHECK(context.last_variant() == v.name);
    });
}

TEST_CASE("variable_length: calls of two Contexts at the same time do not meet", "[varlen]") {
    const auto work = [](unsigned seed, bool &same) {
        attune::Context context({.threads = 3});
        std::mt19937 random(seed);
        const PackedCase c{.queries = random_lengths(random, 30, 90), .keys = random_lengths(random, 30, 90), .seed = seed};
        PackedArrays<float> first(c);
        same = first.run(context).ok();
        for (int n = 0; n < 20; n++) {
            PackedArrays<float> again(c);
            same = same && again.run(context).ok() && same_bits(first.out.values(), again.out.values());
        }
    };
    bool same_here = false, same_there = false;
    std::thread other([&] { work(2, same_there); });
    work(1, same_here);
    other.join();
    CHECK(same_here);
    CHECK(same_there);
}

TEST_CASE("variable_length: memory that runs out is answered, and the Context serves the next call", "[varlen][memory]") {
    const PackedCase c{.queries = {200, 1, 150, 90}, .keys = {200, 300, 150, 90}};
    int refused = 0;
    PackedArrays<float> right(c);
    attune::Context usual;
    REQUIRE(right.run(usual).ok());
    for (int fail_at = 0;; fail_at++) {
        CountingAllocator allocator;
        allocator.fail_at = fail_at;
        attune::Context context({.threads = 2, .allocator = allocator.hook()});
        PackedArrays<float> a(c);
        const attune::Status status = a.run(context);
        const bool asked = allocator.requests > fail_at;
        INFO("request " << fail_at << ": " << status.message());
        // Kernels also ask for blocks of no bytes, whose failure they survive.
        if (status.ok())
            CHECK(same_bits(a.out.values(), right.out.values()));
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
