// SPDX-License-Identifier: MIT
// Common parts of the checks of attention: calls, and arrays as bytes.
#pragma once
#include "checks.h"
#include "tests/support/sdpa_arrays.h"
#include "tests/support/variant_grid.h"
#include <limits>

namespace attune::tune {

// Adds the array's storage unless it is not given.
template<typename T> void add_bytes(std::vector<NamedBytes> &to, const char *name, const attune_test::Array<T> &array) {
    if (!array.bytes().empty()) to.push_back({name, array.bytes()});
}

template<typename T> std::vector<NamedBytes> input_bytes(attune_test::SdpaArrays<T> &a) {
    std::vector<NamedBytes> all;
    add_bytes(all, "query", a.query), add_bytes(all, "key", a.key), add_bytes(all, "value", a.value);
    add_bytes(all, "score_weight", a.score_weight), add_bytes(all, "bias", a.bias), add_bytes(all, "mask", a.mask);
    add_bytes(all, "alibi_slopes", a.slopes), add_bytes(all, "sinks", a.sinks);
    return all;
}
template<typename T> std::vector<NamedBytes> output_bytes(attune_test::SdpaArrays<T> &a) {
    std::vector<NamedBytes> all;
    add_bytes(all, "out", a.out), add_bytes(all, "lse", a.lse), add_bytes(all, "weights", a.weights);
    return all;
}

// Sets keys and values that every query masks to NaN and Inf in turns: their contents must have no effect.
template<typename T> void spoil_masked(attune_test::SdpaArrays<T> &a) {
    const attune_test::SdpaCase &c = a.the;
    if (c.weights && *c.weights < attune::WeightsMode::masked) return;  // raw scores are of every key
    const attune::SdpaOptions o = a.options({});
    const std::int64_t group = c.key_heads ? c.query_heads / c.key_heads : 1;
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t key_head = 0; key_head < c.key_heads; key_head++)
            for (std::int64_t j = 0; j < c.keys; j++) {
                bool kept = false;
                for (std::int64_t i = 0; i < c.queries && !kept; i++) {
                    if (!attune_test::takes_part(o, b, i, j, c.queries, c.keys)) continue;
                    for (std::int64_t h = key_head * group; h < (key_head + 1) * group && !kept; h++)
                        kept = attune_test::let_through<T>(o, 4, b, h, i, j);
                }
                if (kept) continue;
                using Limits = std::numeric_limits<T>;
                const T with = j % 2 ? Limits::quiet_NaN() : Limits::infinity();
                for (std::int64_t d = 0; d < a.key.view().extent[3]; d++) a.key(b, key_head, j, d) = with;
                for (std::int64_t d = 0; d < c.value_dim; d++) a.value(b, key_head, j, d) = with;
            }
}

// Calls of attention that are awkward for a variant: numbers of queries and keys around its tiles and KV blocks, masks and
// their edges, layouts, groups of heads, head sizes, large scores; and the options of its kind.
std::vector<attune_test::SdpaCase> awkward_attention(const attune::VariantInfo &, unsigned seed);

// Calls f(T{}) with the type of a variant's elements.
template<typename F> void with_type(attune::DType dtype, const F &f) {
    switch (dtype) {
    case attune::DType::f64: return f(double{});
    case attune::DType::bf16: return f(attune_test::BFloat16{});
    case attune::DType::f16: return f(attune_test::Float16{});
    default: return f(float{});
    }
}
template<typename F> void with_wide_type(attune::DType dtype, const F &f) {
    dtype == attune::DType::f64 ? f(double{}) : f(float{});
}

// Plans a check of class Made for a case, with the case as its description.
template<typename Made, typename Case> PlannedCheck plan(const Case &c) {
    return {describe(c), [c] { return std::make_unique<Made>(c); }};
}

}  // namespace attune::tune
