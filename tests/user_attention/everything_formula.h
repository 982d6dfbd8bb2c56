// SPDX-License-Identifier: MIT
// The formula of attention `everything` (attentions.h), pair by pair. Captures: table, temperature, allowed, document, decay,
// cap, reach.
#pragma once
#include "tests/reference/user_attention_reference.h"
#include <algorithm>
#include <cmath>

namespace attune_test {

struct EverythingEquations {
    template<typename R> static R score(R x, const Pair &at, const Captured<R> &c) {
        const Index reach = Index(c[6][0]), width = 2 * reach + 1;
        const R cap = c[5][0], bent = cap * std::tanh(x * c[1][std::size_t(at.b * at.heads + at.h)] / cap);
        const Index near = std::clamp<Index>(at.j - at.position + reach, 0, 2 * reach);
        return bent + c[0][std::size_t(at.h * width + near)] - R(0.3) * c[0][std::size_t(at.h * width + reach)];
    }
    template<typename R> static bool mask(const Pair &at, const Captured<R> &c) {
        const auto document = [&](Index j) { return c[3][std::size_t(at.b * at.keys + j)]; };
        return c[2][std::size_t(at.i * at.keys + at.j)] != 0 && document(at.j) == document(std::min(at.i, at.keys - 1));
    }
    template<typename R> static R factor(const Pair &at, const Captured<R> &c) {
        return std::exp(R(-0.07) * c[4][0] * R(std::abs(at.i - at.j)));
    }
};

}  // namespace attune_test
