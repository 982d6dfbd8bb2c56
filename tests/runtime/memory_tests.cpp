// SPDX-License-Identifier: MIT
// The caller's Allocator: it is used, aligned, gets everything back; its memory may hold anything, and it may fail.
#include "tests/support/counting_allocator.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <thread>

using namespace attune_test;

namespace {
const std::vector<std::string_view> every_kind = {"plain", "scored", "training", "weights"};

// A case with the options of the variant's kind.
SdpaCase work(const attune::VariantInfo &v) {
    const auto [head_dim, value_dim] = head_size(v);
    SdpaCase c{.query_heads = 4,
               .key_heads = 2,
               .queries = 40,
               .keys = kv_block_of(v) + 90,
               .head_dim = head_dim,
               .value_dim = value_dim};
    c.valid_lens = {kv_block_of(v) + 3, 20};
    if (v.kind == "scored" || v.kind == "weights") c.bias = "ij", c.alibi = Alibi::standard;
    if (v.kind == "weights") c.weights = attune::WeightsMode::probabilities;
    if (v.kind == "training") c.dropout = {0.5, 1, 0};
    return c;
}
}  // namespace

TEST_CASE("memory: the Context's allocator is used, and given everything back", "[runtime][memory]") {
    for_each_variant("sdpa", every_kind, [](const attune::VariantInfo &v, auto zero) {
        CountingAllocator allocator;
        {
            attune::Context context({.threads = 2, .allocator = allocator.hook()});
            SdpaArrays<decltype(zero)> a(work(v));
            for (int call = 0; call < 3; call++) CHECK(a.run(context, v.name).ok());
            const auto out = a.out.values(), weights = a.weights.values();
            const auto lse = a.lse.values();
            CHECK(allocator.requests > 0);
            CHECK(allocator.live >= context.scratch_bytes());
            context.release_scratch();
            CHECK(context.scratch_bytes() == 0);
            CHECK(allocator.live == 0);
            a.out.forget(), a.lse.forget(), a.weights.forget();
            CHECK(a.run(context, v.name).ok());
            CHECK(untouched_defect(a) == "");  // values are checked by the per_variant tests
            CHECK(same_bits(a.out.values(), out));
            CHECK(same_bits(a.lse.values(), lse));
            CHECK(same_bits(a.weights.values(), weights));
        }
        CHECK(allocator.live == 0);
        CHECK(allocator.defects == 0);
    });
}

TEST_CASE("memory: a second call of the same sizes asks for nothing", "[runtime][memory]") {
    const auto requests_after_the_first = [] {
        CountingAllocator allocator;
        attune::Context context({.threads = 1, .allocator = allocator.hook()});
        SdpaArrays<float> a({.queries = 100, .keys = 500});
        CHECK(a.run(context).ok());
        const int requests = allocator.requests;
        CHECK(a.run(context).ok());
        CHECK(a.run(context).ok());
        return allocator.requests - requests;
    };
    CHECK(requests_after_the_first() == 0);
    // Threads that have not called before.
    for (int n = 0; n < 4; n++) std::thread([&] { CHECK(requests_after_the_first() == 0); }).join();
}

TEST_CASE("memory: blocks lie with a Context and not with the threads that call it", "[runtime][memory]") {
    CountingAllocator allocator;
    attune::Context context({.threads = 1, .allocator = allocator.hook()});
    SdpaArrays<float> a({.queries = 100, .keys = 500});
    CHECK(a.run(context).ok());
    const std::size_t kept = context.scratch_bytes();
    CHECK(kept > 0);
    const int requests = allocator.requests;
    for (int n = 0; n < 3; n++) std::thread([&] { CHECK(a.run(context).ok()); }).join();
    CHECK(allocator.requests == requests);
    CHECK(context.scratch_bytes() == kept);
}

TEST_CASE("memory: what the allocator's memory holds does not matter", "[runtime][memory]") {
    for_each_variant("sdpa", every_kind, [](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        std::vector<T> out, weights;
        std::vector<Sum<T>> lse;
        for (unsigned char fill : {0x00, 0xff, 0x7f, 0x47}) {  // 0, NaN, 3.4e38 and 51015 (f64: 1e306 and 2e35)
            CountingAllocator allocator;
            allocator.fill = fill;
            attune::Context context({.threads = 2, .allocator = allocator.hook()});
            SdpaArrays<T> a(work(v));
            CHECK(a.run(context, v.name).ok());
            if (out.empty()) out = a.out.values(), lse = a.lse.values(), weights = a.weights.values();
            INFO("filled with " << int(fill));
            CHECK(same_bits(a.out.values(), out));
            CHECK(same_bits(a.lse.values(), lse));
            CHECK(same_bits(a.weights.values(), weights));
        }
    });
}

TEST_CASE("memory: each request that fails is an out_of_memory, and the next call works", "[runtime][memory]") {
    for_each_variant("sdpa", every_kind, [](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        if (v.kind != "plain" && v.head_dim != 0) return;  // for time: they allocate as variants for any head size do
        SdpaArrays<T> a(work(v));
        for (int threads : {1, 3}) {
            CountingAllocator allocator;
            // Without kept blocks, so that every request of the kernel reaches the allocator.
            attune::Context context({.threads = threads, .scratch_bytes_per_thread = 0, .allocator = allocator.hook()});
            CHECK(a.run(context, v.name).ok());
            const auto out = a.out.values(), lse = a.lse.values();
            INFO(threads << " threads");
            refuse_requests(
                allocator, 40, [&] { return a.run(context, v.name); },
                [&] {
                    CHECK(a.run(context, v.name).ok());
                    CHECK(same_bits(a.out.values(), out));
                    CHECK(same_bits(a.lse.values(), lse));
                });
            CHECK(allocator.live == 0);
            CHECK(allocator.defects == 0);
        }
        CHECK(a.out.gaps_untouched());
    });
}

TEST_CASE("memory: kept scratch is bounded by the option", "[runtime][memory]") {
    for (std::size_t bound : {std::size_t(0), std::size_t(10000), std::size_t(1) << 20}) {
        CountingAllocator allocator;
        attune::Context context({.threads = 2, .scratch_bytes_per_thread = bound, .allocator = allocator.hook()});
        for (std::int64_t queries : {3, 200, 50, 1})
            for (std::int64_t keys : {20, 900}) {
                check_case<float>(context, {.query_heads = 4, .queries = queries, .keys = keys});
                CHECK(context.scratch_bytes() <= 2 * bound);
                CHECK(allocator.live <= 2 * bound);
            }
    }
}
