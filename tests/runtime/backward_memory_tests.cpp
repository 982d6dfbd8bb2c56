// SPDX-License-Identifier: MIT
// Gradients and the caller's Allocator: all memory is given back, its contents and failures have no effect, and scratch grows
// with the length of a sequence, not with its square.
#include "tests/support/backward_grid.h"
#include "tests/support/counting_allocator.h"

using namespace attune_test;

namespace {
// A case with the options of the variant's kind.
SdpaBackwardCase gradient_work(const attune::VariantInfo &v) {
    SdpaBackwardCase c{.forward = {.query_heads = 4, .key_heads = 2, .queries = 70, .keys = 90}, .grad_lse = true};
    std::tie(c.forward.head_dim, c.forward.value_dim) = head_size(v);
    c.forward.valid_lens = {80, 20};
    if (v.kind != "plain")
        c.forward.bias = "i1", c.forward.mask = "b111", c.forward.alibi = Alibi::standard, c.forward.sinks = true;
    if (v.kind == "training") c.forward.dropout = {0.5, 1, 0};
    return c;
}
}  // namespace

TEST_CASE("memory: gradients give everything back, and what scratch holds does not matter",
          "[sdpa_backward][runtime][memory]") {
    attune::Context plain;
    for_each_backward([&](const attune::VariantInfo &v, auto zero) {
        SdpaBackwardArrays<decltype(zero)> clean(gradient_work(v));
        REQUIRE(clean.run_forward(plain).ok());
        auto expected = clean;
        REQUIRE(expected.run(plain, v.name).ok());
        for (unsigned char fill : {0x00, 0xff, 0x7f, 0x47})  // 0, NaN, 3.4e38 and 51015 (f64: 1e306 and 2e35)
            for (unsigned wanted : {unsigned(want_all), unsigned(want_query), unsigned(want_value | want_bias)}) {
                CountingAllocator allocator;
                allocator.fill = fill;
                {
                    attune::Context context({.threads = 2, .allocator = allocator.hook()});
                    auto a = clean;
                    CHECK(a.run(context, v.name, wanted).ok());
                    INFO("filled with " << int(fill) << " wanted " << wanted);
                    CHECK(a.bits(wanted) == expected.bits(wanted));
                    CHECK(allocator.live >= context.scratch_bytes());
                    context.release_scratch();
                    CHECK(allocator.live == 0);
                }
                CHECK(allocator.defects == 0);
            }
    });
}

TEST_CASE("memory: each request of gradients that fails is an out_of_memory, and the next call works",
          "[sdpa_backward][runtime][memory]") {
    attune::Context plain;
    for_each_backward([&](const attune::VariantInfo &v, auto zero) {
        if (v.head_dim != 0) return;  // for time: they allocate as variants for any head size do
        SdpaBackwardArrays<decltype(zero)> clean(gradient_work(v));
        REQUIRE(clean.run_forward(plain).ok());
        auto expected = clean;
        REQUIRE(expected.run(plain, v.name).ok());
        for (int threads : {1, 3}) {
            CountingAllocator allocator;
            attune::Context context({.threads = threads, .scratch_bytes_per_thread = 0, .allocator = allocator.hook()});
            auto a = clean;
            INFO(threads << " threads");
            refuse_requests(
                allocator, 20, [&] { return a.run(context, v.name); }, [] {});
            CHECK(a.bits() == expected.bits());
            CHECK(allocator.defects == 0);
        }
    });
}

TEST_CASE("memory: scratch of gradients grows with the sequence, not with its square", "[sdpa_backward][runtime][memory]") {
    // For time a query sees few keys, which takes no less scratch.
    for (int threads : {1, 2}) {
        std::vector<double> bytes_a_row;
        for (std::int64_t length : {1024, 2048, 4096, 8192, 16384}) {
            CountingAllocator allocator;
            attune::Context context({.threads = threads, .allocator = allocator.hook()});
            SdpaBackwardCase c{.forward = {.batch = 1, .queries = length, .keys = length, .head_dim = 16, .value_dim = 16}};
            c.forward.window = {100, 0}, c.forward.dropout = {0.1, 1, 0}, c.forward.alibi = Alibi::per_head;
            c.forward.sinks = true;
            SdpaBackwardArrays<float> a(c);
            attune::Context plain;
            REQUIRE(a.run_forward(plain).ok());
            REQUIRE(a.run(context).ok());
            bytes_a_row.push_back(double(allocator.peak) / double(length));
        }
        for (double bytes : bytes_a_row) {
            INFO(threads << " threads, " << bytes << " bytes a row, at first " << bytes_a_row.front());
            CHECK(bytes <= 1.1 * threads * bytes_a_row.front());  // short calls may run on one thread
        }
    }
}

namespace {
// A case in which a window hides nearly all rows from each other.
SdpaBackwardCase windowed_gradients(std::int64_t length, attune::Window window) {
    SdpaBackwardCase c{.forward = {.batch = 1, .query_heads = 2, .key_heads = 1, .queries = length, .keys = length}};
    c.forward.head_dim = 12, c.forward.value_dim = 8, c.forward.window = window;
    return c;
}
}  // namespace

TEST_CASE("memory: scratch of windowed gradients follows the window, but for some numbers of each row",
          "[sdpa_backward][runtime][memory]") {
    attune::Context plain;
    std::size_t of_one_thread = 0;  // peak of one thread and the shorter sequence
    for (int threads : {1, 2}) {
        std::vector<std::size_t> peaks;
        const std::int64_t shorter = 8192, longer = 16384;
        for (std::int64_t length : {shorter, longer}) {
            SdpaBackwardArrays<float> a(windowed_gradients(length, {90, 0}));
            REQUIRE(a.run_forward(plain).ok());
            CountingAllocator allocator;
            attune::Context context({.threads = threads, .allocator = allocator.hook()});
            REQUIRE(a.run(context).ok());
            peaks.push_back(allocator.peak);
        }
        // lse, delta and the bounds of lengths; transposed copies of the rows would be ten times as much.
        const std::int64_t bytes_of_a_row = 2 * 2 * 4 + 2 * 4;
        if (threads == 1) of_one_thread = peaks[0];
        INFO(threads << " threads, peaks " << peaks[0] << " and " << peaks[1] << ", of one thread " << of_one_thread);
        // Two threads may hold their tasks' scratch at the same time.
        CHECK(peaks[1] <= std::size_t(threads) * of_one_thread + std::size_t((longer - shorter) * bytes_of_a_row * 5 / 4));
    }
}

TEST_CASE("memory: windowed gradients of a long sequence have the bits of a short one", "[sdpa_backward][runtime]") {
    attune::Context one({.threads = 1}), three({.threads = 3});
    const std::int64_t length = 6000, cut = 1408;  // whole tiles; all in one pass
    for (const attune::Window &window : {attune::Window{90, 0}, {10, 70}}) {
        SdpaBackwardArrays<float> all(windowed_gradients(length, window));
        REQUIRE(all.run_forward(one).ok());
        auto some = all, shared = all;
        REQUIRE(all.run(one).ok());
        REQUIRE(shared.run(three).ok());
        CHECK(all.bits() == shared.bits());
        const auto first = [&](auto view) {
            if (view.given()) view.extent[2] = cut;
            return view;
        };
        attune::SdpaForward forward = some.results();
        forward.out = first(forward.out), forward.lse = first(forward.lse), forward.grad_out = first(forward.grad_out);
        attune::SdpaGradients gradients = some.gradients();
        gradients.query = first(gradients.query), gradients.key = first(gradients.key),
        gradients.value = first(gradients.value);
        const auto status =
            attune::scaled_dot_product_attention_backward(one, first(some.forward.query.view()), first(some.forward.key.view()),
                                                          first(some.forward.value.view()), forward, gradients, some.options());
        REQUIRE(status.ok());
        // Rows that see, and are seen by, no row beyond the cut.
        bool same = true;
        for (std::int64_t row = 0; row < cut - 100; row++)
            for (std::int64_t d = 0; d < 8; d++) {
                for (std::int64_t head : {0, 1})
                    same = same && same_bits(all.grad_query(0, head, row, d), some.grad_query(0, head, row, d));
                same = same && same_bits(all.grad_key(0, 0, row, d), some.grad_key(0, 0, row, d)) &&
                       same_bits(all.grad_value(0, 0, row, d), some.grad_value(0, 0, row, d));
            }
        CHECK(same);
    }
}
