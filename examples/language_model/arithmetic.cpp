// SPDX-License-Identifier: MIT
#include "arithmetic.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace language_model {
namespace {

using attune::bfloat16;

inline float widened(float x) { return x; }
inline float widened(bfloat16 x) { return attune::to_float(x); }

// Rounding of numbers that are not NaN, to nearest with ties to even. attune::to_bfloat16 branches, and is not vectorised.
inline void store(float x, float &out) { out = x; }
inline void store(float x, bfloat16 &out) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
    out.bits = std::uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

// exp(x) of a float to about two units of its last place: 2^n times a polynomial (Taylor's) on [-log(2) / 2, log(2) / 2].
// The loops of the C library's exp are not vectorised.
inline float exponential(float x) {
    x = std::min(std::max(x, -87.0f), 88.0f);
    const float n = std::nearbyint(x * 1.44269504f);
    const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    const float tail = 1.0f / 120 + r * (1.0f / 720 + r * (1.0f / 5040));
    const float p = 1 + r * (1 + r * (0.5f + r * (1.0f / 6 + r * (1.0f / 24 + r * tail))));
    return p * std::bit_cast<float>((std::int32_t(n) + 127) << 23);
}

// Calls a function with the elements as float or bfloat16.
template<typename Function> void with_elements(const attune::ConstView &view, Function function) {
    if (view.dtype == attune::DType::f32)
        function(static_cast<const float *>(view.data));
    else if (view.dtype == attune::DType::bf16)
        function(static_cast<const bfloat16 *>(view.data));
    else
        throw Failure(std::string("a row is of type ") + attune::name_of(view.dtype) + ", which must be f32 or bf16");
}
template<typename Function> void with_elements(const attune::View &view, Function function) {
    with_elements(attune::ConstView(view), [&](auto *first) {
        using Element = std::remove_const_t<std::remove_pointer_t<decltype(first)>>;
        function(const_cast<Element *>(first));
    });
}

}  // namespace

void embed(const attune::ConstView &table, std::int64_t token, float *out) {
    const std::int64_t width = table.extent[1];
    with_elements(table, [&](const auto *first) {
        const auto *row = first + token * table.stride[0];
        for (std::int64_t n = 0; n < width; n++) out[n] = widened(row[n]);
    });
}

void rms_norm(const float *x, const float *weight, float eps, const attune::View &out) {
    const std::int64_t rows = out.extent[0], width = out.extent[1];
    constexpr std::int64_t lanes = 32;  // partial sums, which the compiler keeps in vectors
    with_elements(out, [&](auto *to) {
        for (std::int64_t row = 0; row < rows; row++, x += width, to += width) {
            float sums[lanes] = {};
            std::int64_t n = 0;
            for (; n + lanes <= width; n += lanes)
                for (std::int64_t lane = 0; lane < lanes; lane++) sums[lane] += x[n + lane] * x[n + lane];
            for (; n < width; n++) sums[0] += x[n] * x[n];
            float sum = 0;
            for (const float partial : sums) sum += partial;
            const float factor = 1 / std::sqrt(sum / float(width) + eps);
            for (n = 0; n < width; n++) store(x[n] * factor * weight[n], to[n]);
        }
    });
}

void add(const attune::ConstView &y, float *x) {
    const std::int64_t count = y.extent[0] * y.extent[1];
    with_elements(y, [&](const auto *from) {
        for (std::int64_t n = 0; n < count; n++) x[n] += widened(from[n]);
    });
}

void swiglu(const attune::ConstView &gate_up, const attune::View &out) {
    const std::int64_t rows = out.extent[0], hidden = out.extent[1];
    with_elements(out, [&](auto *to) {
        using Element = std::remove_pointer_t<decltype(to)>;
        const auto *gate = static_cast<const Element *>(gate_up.data);
        for (std::int64_t row = 0; row < rows; row++, gate += 2 * hidden, to += hidden)
            for (std::int64_t n = 0; n < hidden; n++) {
                const float x = widened(gate[n]);
                store(x / (1 + exponential(-x)) * widened(gate[hidden + n]), to[n]);
            }
    });
}

void widen(const attune::ConstView &x, float *out) {
    const std::int64_t count = x.extent[0] * x.extent[1];
    with_elements(x, [&](const auto *from) {
        for (std::int64_t n = 0; n < count; n++) out[n] = widened(from[n]);
    });
}

double log_sum_exp(const float *x, std::int64_t count) {
    const float largest = *std::max_element(x, x + count);
    double sum = 0;
    for (std::int64_t n = 0; n < count; n++) sum += std::exp(double(x[n]) - double(largest));
    return double(largest) + std::log(sum);
}

}  // namespace language_model
