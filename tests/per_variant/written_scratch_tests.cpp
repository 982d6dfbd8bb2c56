// SPDX-License-Identifier: MIT
// Kernels compute with no scratch that they have not written.
#include "tests/support/backward_grid.h"
#include "tests/support/linear_case.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/subnormal_scratch.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
// Elements so large that no half is subnormal, nor a product.
template<typename T, typename... Arrays> void keep_from_zero(Array<T> &first, Arrays &...others) {
    first.each([](T &x) { x = std::abs(double(x)) < 0.01 ? T(0.01) : x; });
    if constexpr (sizeof...(others) > 0) keep_from_zero(others...);
}
// Checks that a call computes with no element of scratch that it has not written.
template<typename Run> void check_written(SubnormalScratch &scratch, const Run &run) {
    scratch.clear();
    REQUIRE(run().ok());
    CHECK(!scratch.seen());
}

// Whether a test is to be skipped, which it names.
bool skipped() {
    if (!SubnormalScratch::sees) WARN("SKIPPED: this architecture has no flag of subnormal operands");
    return !SubnormalScratch::sees;
}
}  // namespace

TEST_CASE("written scratch: an element that nothing has written is seen", "[per_variant]") {
    if (skipped()) return;
    SubnormalScratch scratch;
    const attune::Allocator hook = scratch.options().allocator;
    for (const bool write : {false, true}) {
        auto *const block = static_cast<volatile float *>(hook.allocate(hook.user, 64, 64));
        if (write) block[3] = 1;
        scratch.clear();
        block[0] = block[3] * 1.5F;
        hook.release(hook.user, const_cast<float *>(block), 64);
        CHECK(scratch.seen() == !write);
    }
}

TEST_CASE("written scratch: products", "[linear][per_variant]") {
    if (skipped()) return;
    SubnormalScratch scratch;
    attune::Context context(scratch.options());
    for (const std::string_view op : {"linear", "linear_packed", "batch_dot"})
        for_each_variant(op, no_kind, [&](const attune::VariantInfo &v, auto zero) {
            const int tile = parameter_of(v, "tile_rows", 4), block = parameter_of(v, "depth_block", 256);
            unsigned seed = 1;
            for (const std::int64_t rows : {1, 3, tile + 1, 3 * tile - 1})
                for (const std::int64_t depth : {32, block + 32}) {
                    LinearCase c{.leading = {2, rows}, .columns = 2 * columns_of_full_tiles(v), .depth = depth, .seed = seed++};
                    c.packed = op == "linear_packed";
                    if (!takes_full_tiles(v)) c.columns += 3, c.depth += v.schedule == "bf16_dot" ? 2 : 1;
                    LinearArrays<decltype(zero)> a(c, op == "batch_dot");
                    keep_from_zero(a.x, a.weight, a.bias);
                    INFO(describe(c));
                    check_written(scratch, [&] { return a.run(context, v.name); });
                }
        });
}

// Without a causal mask: of a KV block that no query of a tile sees, tiles compute the scale, and use it nowhere.
TEST_CASE("written scratch: attention", "[sdpa][per_variant]") {
    if (skipped()) return;
    SubnormalScratch scratch;
    attune::Context context(scratch.options());
    for_each_variant([&](const attune::VariantInfo &v, auto zero) {
        for_each_small_case(v, 1, {2 * tile_of(v) - 1, 2 * kv_block_of(v) + 9}, [&](SdpaCase c) {
            SdpaArrays<decltype(zero)> a(c);
            keep_from_zero(a.query, a.key, a.value);
            INFO(describe(c));
            check_written(scratch, [&] { return a.run(context, v.name); });
        });
    });
}

TEST_CASE("written scratch: gradients of attention", "[sdpa_backward][per_variant]") {
    if (skipped()) return;
    SubnormalScratch scratch;
    attune::Context context(scratch.options());
    for_each_backward([&](const attune::VariantInfo &v, auto zero) {
        if (v.schedule == "root") return;  // which pads, and is never tuned
        for_each_small_case(v, 1, {2 * tile_of(v) - 1, 2 * kv_block_of(v) + 9}, [&](SdpaCase c) {
            if (v.head_dim == 0 && c.seed % 2) c.head_dim = c.value_dim = 40;
            SdpaBackwardArrays<decltype(zero)> a({c});
            keep_from_zero(a.forward.query, a.forward.key, a.forward.value, a.grad_out);
            INFO(describe(c));
            REQUIRE(a.run_forward(context).ok());
            keep_from_zero(a.forward.out);
            check_written(scratch, [&] { return a.run(context, v.name); });
        });
    });
}
