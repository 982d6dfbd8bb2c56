// SPDX-License-Identifier: MIT
// Reference of the steps on rows and of quantisation, one row at a time, in Real. Arguments are assumed to be legal.
#pragma once
#include "tests/support/half_elements.h"
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace attune_test {

template<typename Real> using Row = std::vector<Real>;

// The steps on a row; empty vectors: no such step.
template<typename Real> struct RowDefinition {
    Row<Real> weight;  // (D), of the RMS norm
    Real eps = 0;
    Row<Real> cos, sin;  // (dim / 2), of its position
    bool interleaved = false;
    std::size_t offset = 0;
    bool hadamard = false;
};

template<typename Real> Real norm_factor(const Row<Real> &x, Real eps) {
    Real squares = 0;
    for (Real e : x) squares += e * e;
    return 1 / std::sqrt(squares / Real(x.size()) + eps);
}
// Turns the pairs by their angles, or back where sign is -1.
template<typename Real> void turn(Row<Real> &x, const RowDefinition<Real> &how, Real sign = 1) {
    const std::size_t pairs = how.cos.size();
    for (std::size_t t = 0; t < pairs; t++) {
        Real &a = x[how.offset + (how.interleaved ? 2 * t : t)];
        Real &b = x[how.offset + (how.interleaved ? 2 * t + 1 : t + pairs)];
        const Real c = how.cos[t], s = sign * how.sin[t], even = a * c - b * s, odd = b * c + a * s;
        a = even, b = odd;
    }
}
// H(i, j) = (-1)^(number of common bits of i and j) / sqrt(n).
template<typename Real> void rotate(Row<Real> &x) {
    const std::size_t n = x.size() & (~x.size() + 1);
    const Row<Real> before = x;
    for (std::size_t block = 0; block < x.size(); block += n)
        for (std::size_t i = 0; i < n; i++) {
            Real sum = 0;
            for (std::size_t j = 0; j < n; j++) sum += std::popcount(i & j) % 2 ? -before[block + j] : before[block + j];
            x[block + i] = sum / std::sqrt(Real(n));
        }
}
template<typename Real> Row<Real> after_steps(Row<Real> x, const RowDefinition<Real> &how) {
    if (!how.weight.empty()) {
        const Real factor = norm_factor(x, how.eps);
        for (std::size_t d = 0; d < x.size(); d++) x[d] = x[d] * factor * how.weight[d];
    }
    turn(x, how);
    if (how.hadamard) rotate(x);
    return x;
}
// The gradient of x, the first of the two terms whose difference it is, and the terms of this row in that of the weight.
template<typename Real> struct RowGradients { Row<Real> x, first, weight; };
template<typename Real>
RowGradients<Real> gradients_of_steps(const Row<Real> &x, Row<Real> grad, const RowDefinition<Real> &how) {
    if (how.hadamard) rotate(grad);
    turn(grad, how, Real(-1));
    if (how.weight.empty()) return {grad, grad, {}};
    const Real factor = norm_factor(x, how.eps);
    RowGradients<Real> g{Row<Real>(x.size()), Row<Real>(x.size()), Row<Real>(x.size())};
    Real dot = 0;
    for (std::size_t d = 0; d < x.size(); d++) dot += grad[d] * how.weight[d] * x[d];
    for (std::size_t d = 0; d < x.size(); d++) {
        g.x[d] = factor * (grad[d] * how.weight[d] - x[d] * factor * factor * dot / Real(x.size()));
        g.first[d] = factor * grad[d] * how.weight[d];
        g.weight[d] = grad[d] * x[d] * factor;
    }
    return g;
}

// Quantisation of a row, in f32 as it is defined.
struct QuantisedRow {
    std::vector<int> q;
    std::vector<float> scale, minimum;  // by group
};
inline int rounded(float x, float least, float most) { return int(std::nearbyint(std::clamp(x, least, most))); }
inline float within_f16(float x) { return float(Float16(std::clamp(x, -65504.f, 65504.f))); }

inline QuantisedRow int8_of(const Row<float> &x, bool scale_is_f16) {
    float largest = 0;
    for (float e : x) largest = std::max(largest, std::abs(e));
    QuantisedRow r;
    r.scale = {scale_is_f16 ? within_f16(largest / 127) : largest / 127};
    for (float e : x) r.q.push_back(r.scale[0] == 0 ? 0 : rounded(e / r.scale[0], -127, 127));
    return r;
}
inline QuantisedRow int8_of(const Row<float> &x, const Row<float> &scales) {
    QuantisedRow r;
    for (std::size_t d = 0; d < x.size(); d++) r.q.push_back(rounded(x[d] / scales[d], -127, 127));
    return r;
}
inline QuantisedRow int4_of(const Row<float> &x, std::size_t group) {
    QuantisedRow r;
    for (std::size_t first = 0; first < x.size(); first += group) {
        const auto [low, high] = std::minmax_element(x.begin() + long(first), x.begin() + long(first + group));
        r.minimum.push_back(within_f16(*low)), r.scale.push_back(within_f16((*high - *low) / 15));
        for (std::size_t d = first; d < first + group; d++)
            r.q.push_back(r.scale.back() == 0 ? 0 : rounded((x[d] - r.minimum.back()) / r.scale.back(), 0, 15));
    }
    return r;
}

}  // namespace attune_test
