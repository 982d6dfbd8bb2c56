// SPDX-License-Identifier: MIT
// paged_append with every variant that stores rows: quantised numbers and scales are exact, and nothing else is written.
#include "tests/support/append_case.h"
#include "tests/support/environment.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;

namespace {
template<typename F> void for_each_append_variant(const std::string &op, const F &f) {
    for_each_variant(op, {""}, [&](const attune::VariantInfo &v, auto zero) {
        const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
        f(v, zero);
    });
}
PagedAppendCase case_of(std::int64_t head_dim, std::int64_t value_dim, unsigned seed) {
    PagedAppendCase c;
    c.steps.head_dim = head_dim, c.value_dim = value_dim, c.steps.seed = seed, c.steps.rows = 1 + seed % 23;
    c.heads_first = seed % 2 == 0, c.steps.heads = 1 + seed % 3;
    c.steps.layout = seed % 3 == 0 ? Layout::bshd : seed % 3 == 1 ? Layout::padded : Layout::dense;
    return c;
}
void add_steps(PagedAppendCase &c, unsigned seed) {
    RowsCase &s = c.steps;
    s.norm = seed % 2 == 0, s.weight_is_f32 = seed % 3 == 0, s.weight_by_head = seed % 5 < 2;
    if (s.head_dim % 2 == 0) s.pairs = static_cast<Pairs>(seed % 3);
    s.hadamard = s.head_dim % 8 == 0 && seed % 4 < 2;
    c.rotate_values = c.value_dim % 8 == 0 && seed % 4 > 1;
}
}  // namespace

TEST_CASE("append variants: rows as they are given", "[append][per_variant]") {
    attune::Context f32({.threads = 1});
    for_each_append_variant("transform_rows", [&](const attune::VariantInfo &v, auto zero) {
        attune::Context context(in_fenced_scratch());
        unsigned seed = 1;
        for (const auto &[key, value] :
             {std::pair(1, 3), {8, 64}, {16, 80}, {24, 7}, {64, 64}, {80, 96}, {96, 128}, {128, 256}})
            for (int times = 0; times < 4; times++) {
                PagedAppendCase c = case_of(key, value, seed);
                add_steps(c, seed++);
                check_case<decltype(zero)>(context, f32, c);
                const bool copies = !c.steps.norm && c.steps.pairs == Pairs::none && !c.steps.hadamard;
                CHECK(context.last_variant() == (copies ? "" : v.name));
            }
    });
}

TEST_CASE("append variants: int8 and int4", "[append][per_variant]") {
    attune::Context f32({.threads = 1});
    for_each_variant_of<float, BFloat16, Float16>(
        "quantise_rows", {""}, HeadSizes::one, [&](const attune::VariantInfo &v, auto zero) {
            const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
            attune::Context context(in_fenced_scratch());
            unsigned seed = 1;
            for (const auto &[key, value] :
                 {std::pair(1, 3), {2, 5}, {8, 64}, {15, 17}, {16, 80}, {24, 7}, {64, 64}, {80, 96}, {96, 128}, {128, 256}})
                for (Stored stored : {Stored::int8, Stored::int8_f16, Stored::int8_tensor, Stored::int8_channel, Stored::int4})
                    for (double spread : {1.7, 1e-7, 3e4}) {
                        PagedAppendCase c = case_of(key, value, seed);
                        add_steps(c, seed++);
                        c.keys = stored, c.values = stored, c.spread = spread;
                        if (stored == Stored::int4) {
                            c.group = seed % 3 == 0 ? -1 : seed % 3 == 1 ? 64 : 32;
                            if (key % std::abs(c.group) != 0 || value % std::abs(c.group) != 0) c.group = -1;
                            if (key % 2 != 0) c.keys = Stored::int8;
                            if (value % 2 != 0) c.values = Stored::int8_f16;
                        }
                        check_case<decltype(zero)>(context, f32, c);
                        CHECK(context.last_variant() == v.name);
                    }
        });
}

TEST_CASE("append variants: bits do not depend on threads or other rows", "[append][per_variant]") {
    for_each_variant_of<float, BFloat16, Float16>("quantise_rows", {""}, HeadSizes::one,
                                                  [&](const attune::VariantInfo &v, auto zero) {
                                                      const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
                                                      using T = decltype(zero);
                                                      for (Stored stored : {Stored::int8, Stored::int4}) {
                                                          PagedAppendCase c = case_of(128, 64, 6);
                                                          add_steps(c, 6);
                                                          c.steps.rows = 80, c.steps.heads = 4, c.keys = c.values = stored;
                                                          PagedAppendArrays<T> one(c);
                                                          attune::Context alone({.threads = 1});
                                                          REQUIRE(one.run(alone).ok());
                                                          for (int threads : {2, 3, 4}) {
                                                              attune::Context context({.threads = threads});
                                                              PagedAppendArrays<T> a(c);
                                                              REQUIRE(a.run(context).ok());
                                                              CHECK(a.key_pool.others({}) == one.key_pool.others({}));
                                                              CHECK(a.value_pool.others({}) == one.value_pool.others({}));
                                                          }
                                                      }
                                                  });
}

TEST_CASE("append variants: nothing beside the arrays is read or written", "[append][per_variant]") {
    attune::Context f32({.threads = 1});
    for (Fence fence : {Fence::before, Fence::behind})
        for_each_variant_of<float, BFloat16, Float16>(
            "quantise_rows", {""}, HeadSizes::one, [&](const attune::VariantInfo &v, auto zero) {
                const Environment forced("ATTUNE_FORCE_VARIANT", std::string(v.name));
                attune::Context context(in_fenced_scratch());
                unsigned seed = 1;
                for (const auto &[key, value] : {std::pair(1, 3), {8, 24}, {40, 66}, {80, 128}})
                    for (Stored stored : {Stored::int8, Stored::int8_f16, Stored::int8_channel, Stored::int4}) {
                        PagedAppendCase c = case_of(key, value, seed);
                        add_steps(c, seed++);
                        c.keys = c.values = stored, c.group = -1, c.steps.layout = Layout::dense;
                        if (stored == Stored::int4 && key % 2 != 0) c.keys = c.values = Stored::int8_tensor;
                        const FencedArrays fenced(fence);
                        check_case<decltype(zero)>(context, f32, c);
                    }
            });
}
