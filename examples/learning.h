// SPDX-License-Identifier: MIT
// Parts of examples that learn: parameters with their optimiser, and linear layers with their gradients.
#pragma once
#include "show.h"
#include <utility>

namespace examples {

template<typename T> void add(const ArrayOf<T> &from, ArrayOf<T> &to) {
    for (std::size_t n = 0; n < to.numbers.size(); n++) to.numbers[n] += from.numbers[n];
}

// A learned parameter and its optimiser, Adam (Kingma and Ba, 2015).
template<typename T> struct ParameterOf {
    ArrayOf<T> value, gradient, mean, square;
    explicit ParameterOf(const Shape &shape, float deviation = 0) : value(shape), gradient(shape), mean(shape), square(shape) {
        const Array drawn = normal(shape, deviation);
        value.numbers.assign(drawn.numbers.begin(), drawn.numbers.end());
    }

    void step(int count, T rate) {
        constexpr T a = T(0.9), b = T(0.999);
        const T of_mean = 1 - std::pow(a, T(count)), of_square = 1 - std::pow(b, T(count));
        for (std::size_t n = 0; n < value.numbers.size(); n++) {
            const T g = std::exchange(gradient.numbers[n], T(0));
            T &m = mean.numbers[n], &s = square.numbers[n];
            m = a * m + (1 - a) * g, s = b * s + (1 - b) * g * g;
            value.numbers[n] -= rate * (m / of_mean) / (std::sqrt(s / of_square) + T(1e-8));
        }
    }
};

template<typename T> struct LayerOf {
    ParameterOf<T> weight, bias;
    LayerOf(std::int64_t outputs, std::int64_t inputs)
        : weight({outputs, inputs}, 1 / std::sqrt(float(inputs))), bias({outputs}) {}

    ArrayOf<T> forward(attune::Context &context, const ArrayOf<T> &x) const {
        Shape shape = x.shape;
        shape.back() = weight.value.shape[0];
        ArrayOf<T> out(shape);
        require(attune::linear(context, x, weight.value, bias.value, out));
        return out;
    }
    // The gradient by x; the gradients by weight and bias are added to the parameters' gradients.
    ArrayOf<T> backward(attune::Context &context, const ArrayOf<T> &x, const ArrayOf<T> &grad_out) {
        ArrayOf<T> by_x(x.shape), by_weight(weight.value.shape), by_bias(bias.value.shape);
        require(attune::linear_backward(context, x, weight.value, grad_out, {by_x, by_weight, by_bias}));
        add(by_weight, weight.gradient), add(by_bias, bias.gradient);
        return by_x;
    }
    void step(int count, T rate) { weight.step(count, rate), bias.step(count, rate); }
};

}  // namespace examples
