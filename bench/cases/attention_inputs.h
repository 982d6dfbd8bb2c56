// SPDX-License-Identifier: MIT
// Inputs of attention and of its gradients on a shape, and its options.
#pragma once
#include "attune/sdpa.h"
#include "case.h"
#include <algorithm>

namespace bench {

inline constexpr double softcap = 30;
inline constexpr attune::Dropout dropout = {.probability = 0.1, .seed = 2026};

template<typename T> struct AttentionInputs {
    explicit AttentionInputs(const Shape &s)
        : shape(s), query(s.b * s.h * s.q * s.d, 1), key(s.b * s.kv * s.k * s.d, 2), value(s.b * s.kv * s.k * s.dv, 3),
          bias(s.options.bias ? s.q * s.k : 0, 4), sinks(s.options.sinks ? s.h : 0, 6),
          mask(static_cast<std::size_t>(s.options.mask ? s.q * s.k : 0)), lengths(s.lengths.size() * sizeof(std::int32_t)),
          slopes(s.options.alibi ? attune::alibi_slopes(s.h) : std::vector<float>()) {
        std::copy(s.lengths.begin(), s.lengths.end(), lengths.template as<std::int32_t>());
        // One key in eight is masked, never the first.
        for (std::size_t n = 0; n < mask.bytes(); n++)
            mask.template as<bool>()[n] = n % static_cast<std::size_t>(s.k) == 0 || (n * 2654435761u >> 8) % 8 != 0;
    }

    attune::SdpaOptions options(std::string_view variant) const {
        const Shape &s = shape;
        attune::SdpaOptions o;
        o.causal = s.causal ? attune::Causal::bottom_right : attune::Causal::none;
        o.window = s.window;
        if (!s.lengths.empty()) o.valid_lens = attune::ConstView(lengths.template as<std::int32_t>(), {s.b});
        if (s.options.mask) o.mask = attune::ConstView(mask.template as<bool>(), {s.q, s.k});
        if (s.options.bias) o.bias = attune::ConstView(bias.data(), {s.q, s.k});
        o.alibi = s.options.alibi;
        if (s.options.softcap) o.softcap = softcap;
        if (s.options.sinks) o.sinks = attune::ConstView(sinks.data(), {s.h});
        if (s.options.dropout) o.dropout = dropout;
        o.variant = variant;
        return o;
    }
    attune::ConstView query_view() const { return {query.data(), {shape.b, shape.h, shape.q, shape.d}}; }
    attune::ConstView key_view() const { return {key.data(), {shape.b, shape.kv, shape.k, shape.d}}; }
    attune::ConstView value_view() const { return {value.data(), {shape.b, shape.kv, shape.k, shape.dv}}; }

    std::vector<Region> regions() const {
        return {region("query", query), region("key", key),   region("value", value),    region("bias", bias),
                region("sinks", sinks), region("mask", mask), region("lengths", lengths)};
    }

    bool kept(std::int64_t i, std::int64_t j) const { return !shape.options.mask || mask.template as<bool>()[i * shape.k + j]; }
    // Sum of bias and ALiBi for a score.
    template<typename W> W added(std::int64_t h, std::int64_t i, std::int64_t j) const {
        W x = shape.options.bias ? static_cast<W>(bias.data()[i * shape.k + j]) : W(0);
        if (shape.options.alibi)
            x -= static_cast<W>(slopes[static_cast<std::size_t>(h)]) * static_cast<W>(std::abs(i + shape.k - shape.q - j));
        return x;
    }

    Shape shape;
    Filled<T> query, key, value, bias;
    Filled<float> sinks;
    MappedArray mask, lengths;
    std::vector<float> slopes;
};

}  // namespace bench
