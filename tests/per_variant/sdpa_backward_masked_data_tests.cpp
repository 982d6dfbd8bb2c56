// SPDX-License-Identifier: MIT
// Contents of masked data: they have no effect on gradients, not on a single bit, and get gradients of 0; NaN in data that
// takes part reaches the right gradients and no others. docs/conventions.md row 35.
#include "tests/support/backward_grid.h"
#include <functional>

using namespace attune_test;
using attune::Causal;

namespace {
// Place of the NaN: one key, one value, one query or one row of grad_out, of every head and batch entry.
enum class Spoiled { key, value, query, grad_out };
constexpr const char *name_of_spoiled[] = {"key", "value", "query", "grad_out"};

struct MaskedCase {
    SdpaCase the;
    std::vector<std::int64_t> keys, queries;  // to be spoiled
};
std::vector<MaskedCase> masked_cases(std::pair<std::int64_t, std::int64_t> head_sizes) {
    std::vector<MaskedCase> all;
    const auto with = [&](const std::function<void(SdpaCase &)> &mask, std::vector<std::int64_t> keys,
                          std::vector<std::int64_t> queries) {
        SdpaCase c{.query_heads = 2, .key_heads = 1, .queries = 66, .keys = 69};
        c.head_dim = head_sizes.first, c.value_dim = head_sizes.second;
        mask(c);
        all.push_back({c, keys, queries});
    };
    with([](SdpaCase &c) { c.valid_lens = {3, 67}; }, {2, 40, 68}, {5});
    with([](SdpaCase &c) { c.causal = Causal::bottom_right; }, {1, 64, 67}, {0, 65});
    with([](SdpaCase &c) { c.causal = Causal::top_left, c.keys = 40; }, {3, 39}, {1, 64});
    with([](SdpaCase &c) { c.causal = Causal::bottom_right, c.keys = 30; }, {0, 29}, {0, 36, 65});  // 36 rows without keys
    with([](SdpaCase &c) { c.causal = Causal::offset, c.offsets = {-2, 62}, c.window = {1, 0}; }, {0, 63, 68}, {0, 1, 30});
    with([](SdpaCase &c) { c.valid_lens = {0, 0}; }, {0, 68}, {0, 65});
    with(
        [](SdpaCase &c) {
            c.causal = Causal::bottom_right;
            for (int row = 0; row < 2 * 66; row++) c.valid_lens.push_back(row % 3 ? 69 : row % 2 ? 20 : 0);
        },
        {19, 20, 68}, {0, 3, 7});
    // Options that only some variants know. The last row is masked whole.
    with([](SdpaCase &c) { c.mask = "ij", c.softcap = 4; }, {1, 68}, {3, 65});
    with([](SdpaCase &c) { c.mask = "bhij", c.alibi = Alibi::per_batch, c.sinks = true; }, {1, 68}, {3, 65});
    for (double hole : {-std::numeric_limits<double>::infinity(), -3.4e38})
        with([=](SdpaCase &c) { c.bias = "bhij", c.hole = hole, c.softcap = 20; }, {2, 68}, {7, 65});
    return all;
}

// Effects of a NaN in one place of a case: comparison of the gradients with and without it.
template<typename T> struct Effects {
    std::int64_t changed = 0, not_nan = 0, kept_clean = 0;

    Effects(SdpaBackwardArrays<T> &clean, SdpaBackwardArrays<T> &spoiled, Spoiled what, std::int64_t where) {
        const SdpaCase &c = clean.f();
        const auto look = [&](bool reached, T was, T is) {
            changed += !reached && !same_bits(was, is), not_nan += reached && !std::isnan(is), kept_clean += !reached;
        };
        const auto look_at_row = [&](bool reached, Array<T> &was, Array<T> &is, std::int64_t b, std::int64_t h,
                                     std::int64_t i) {
            for (std::int64_t d = 0; d < was.view().extent[3]; d++) look(reached, was(b, h, i, d), is(b, h, i, d));
        };
        for (std::int64_t b = 0; b < c.batch; b++) {
            std::vector<bool> key_reached(std::size_t(c.keys)), value_reached(std::size_t(c.keys));
            for (std::int64_t h = 0; h < c.query_heads; h++)
                for (std::int64_t i = 0; i < c.queries; i++) {
                    bool some = false;
                    for (std::int64_t j = 0; j < c.keys; j++) some = some || clean.forward.kept(b, h, i, j);
                    const bool of_key = what == Spoiled::key || what == Spoiled::value;
                    const bool reached = of_key ? clean.forward.kept(b, h, i, where) : i == where && some;
                    look_at_row(reached, clean.grad_query, spoiled.grad_query, b, h, i);
                    for (std::int64_t j = 0; reached && j < c.keys; j++)
                        if (clean.forward.kept(b, h, i, j))
                            key_reached[std::size_t(j)] = true, value_reached[std::size_t(j)] = what != Spoiled::value;
                    for (std::int64_t j = 0; c.bias == "bhij" && j < c.keys; j++)
                        look(reached && clean.forward.kept(b, h, i, j), clean.grad_bias(b, h, i, j),
                             spoiled.grad_bias(b, h, i, j));
                }
            for (std::int64_t j = 0; j < c.keys; j++) {
                look_at_row(key_reached[std::size_t(j)], clean.grad_key, spoiled.grad_key, b, 0, j);
                look_at_row(value_reached[std::size_t(j)], clean.grad_value, spoiled.grad_value, b, 0, j);
            }
        }
    }
};

template<typename T> void spoil(SdpaBackwardArrays<T> &a, Spoiled what, std::int64_t where) {
    Array<T> &array = what == Spoiled::key     ? a.forward.key
                      : what == Spoiled::value ? a.forward.value
                      : what == Spoiled::query ? a.forward.query
                                               : a.grad_out;
    const attune::View v = array.view();
    for (std::int64_t b = 0; b < v.extent[0]; b++)
        for (std::int64_t h = 0; h < v.extent[1]; h++)
            for (std::int64_t d = 0; d < v.extent[3]; d++) array(b, h, where, d) = std::numeric_limits<T>::quiet_NaN();
}

// A variant, and the gradients of a case by it.
template<typename T> using CleanGradients = std::vector<std::pair<attune::VariantInfo, SdpaBackwardArrays<T>>>;

template<typename T> CleanGradients<T> clean_gradients(attune::Context &context, const SdpaBackwardCase &c) {
    SdpaBackwardArrays<T> forward(c);
    REQUIRE(forward.run_forward(context).ok());
    CleanGradients<T> all;
    for (const attune::VariantInfo &v : backward_variants<T>()) {
        // Variants for any head size run at one size.
        if (!fits(v, c.forward) || head_size(v) != std::pair(c.forward.head_dim, c.forward.value_dim)) continue;
        INFO(describe(c) << ' ' << v.name);
        all.emplace_back(v, forward);
        CHECK(all.back().second.run(context, v.name).ok());
    }
    return all;
}

// Checks one spoiled row of one tensor, by every variant.
template<typename T>
void check_spoiled(attune::Context &context, CleanGradients<T> &gradients, const SdpaCase &c, Spoiled what,
                   std::int64_t where) {
    INFO(describe(c) << " NaN in " << name_of_spoiled[int(what)] << ' ' << where);
    SdpaBackwardArrays<T> spoiled({.forward = c});
    spoil(spoiled, what, where);
    REQUIRE(spoiled.run_forward(context).ok());
    for (auto &[v, clean] : gradients) {
        INFO(v.name);
        CHECK(spoiled.run(context, v.name).ok());
        const Effects<T> effects(clean, spoiled, what, where);
        CHECK(effects.changed == 0);
        CHECK(effects.not_nan == 0);
    }
}
}  // namespace

TEST_CASE("gradients by variant: NaN reaches what sees it, and nothing else", "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        for (const auto &head_sizes : backward_head_sizes<T>())
            for (const auto &[c, keys, queries] : masked_cases(head_sizes)) {
                CleanGradients<T> clean = clean_gradients<T>(context, {.forward = c});
                for (std::int64_t j : keys)
                    for (Spoiled what : {Spoiled::key, Spoiled::value}) check_spoiled<T>(context, clean, c, what, j);
                for (std::int64_t i : queries)
                    for (Spoiled what : {Spoiled::query, Spoiled::grad_out}) check_spoiled<T>(context, clean, c, what, i);
            }
    });
}

TEST_CASE("gradients by variant: rows without keys and keys that nobody sees hold anything, and get 0",
          "[sdpa_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_type([&](auto zero) {
        using T = decltype(zero);
        for (const auto &head_sizes : backward_head_sizes<T>())
            for (MaskedCase masked : masked_cases(head_sizes))
                for (bool dropped : {false, true}) {
                    const SdpaCase &c = masked.the;
                    if (dropped) masked.the.dropout = {0.3, 4, 0};
                    CleanGradients<T> gradients = clean_gradients<T>(context, {.forward = c, .grad_lse = true});
                    SdpaBackwardArrays<T> spoiled({.forward = c, .grad_lse = true});
                    const auto fill_row = [](auto &array, std::int64_t b, std::int64_t h, std::int64_t i, T with) {
                        for (std::int64_t d = 0; d < array.view().extent[3]; d++) array(b, h, i, d) = with;
                    };
                    std::vector<std::tuple<std::int64_t, std::int64_t, std::int64_t>> empty, unseen;
                    for (std::int64_t b = 0; b < c.batch; b++)
                        for (std::int64_t n = 0; n < std::max(c.queries, c.keys); n++) {
                            bool seen = false;
                            for (std::int64_t h = 0; h < c.query_heads; h++) {
                                bool some = false;
                                for (std::int64_t j = 0; n < c.queries && j < c.keys; j++)
                                    some = some || spoiled.forward.kept(b, h, n, j);
                                if (n < c.queries && !some) empty.emplace_back(b, h, n);
                                for (std::int64_t i = 0; n < c.keys && i < c.queries; i++)
                                    seen = seen || spoiled.forward.kept(b, h, i, n);
                            }
                            if (n < c.keys && !seen) unseen.emplace_back(b, 0, n);
                        }
                    for (const T with : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
                        for (auto [b, h, i] : empty) fill_row(spoiled.forward.query, b, h, i, with);
                        for (auto [b, h, j] : unseen)
                            fill_row(spoiled.forward.key, b, h, j, with), fill_row(spoiled.forward.value, b, h, j, with);
                        INFO(describe(spoiled.the) << " with " << float(with));
                        REQUIRE(spoiled.run_forward(context).ok());
                        for (auto &[v, clean] : gradients) {
                            INFO(v.name);
                            CHECK(spoiled.run(context, v.name).ok());
                            CHECK(clean.bits() == spoiled.bits());
                            bool zeros = true;
                            for (auto [b, h, i] : empty)
                                for (std::int64_t d = 0; d < c.head_dim; d++)
                                    zeros = zeros && spoiled.grad_query(b, h, i, d) == 0;
                            for (auto [b, h, j] : unseen)
                                for (std::int64_t d = 0; d < c.head_dim; d++)
                                    zeros = zeros && spoiled.grad_key(b, h, j, d) == 0;
                            CHECK(zeros);
                        }
                    }
                }
    });
}
