// SPDX-License-Identifier: MIT
// Parts that the examples share: a dense f32 array, random numbers, and output beside a document's output.
#pragma once
#include <attune/attune.h>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace examples {

using Shape = std::vector<std::int64_t>;

// A dense array that owns its memory and converts to a view: the library works on views of the caller's memory.
template<typename T> struct ArrayOf {
    Shape shape;
    std::vector<T> numbers;

    explicit ArrayOf(Shape extents, T fill = 0) : shape(std::move(extents)), numbers(count(shape), fill) {}
    ArrayOf(Shape extents, std::vector<T> given) : shape(std::move(extents)), numbers(std::move(given)) {}

    operator attune::View() { return {numbers, shape}; }
    operator attune::ConstView() const { return {numbers, shape}; }

private:
    static std::size_t count(const Shape &shape) {
        std::size_t product = 1;
        for (std::int64_t extent : shape) product *= std::size_t(extent);
        return product;
    }
};
using Array = ArrayOf<float>;

// Random numbers, the same in every run.
inline std::mt19937 &random_engine() {
    static std::mt19937 engine(42);
    return engine;
}
inline Array uniform(Shape shape) {
    Array array(std::move(shape));
    std::uniform_real_distribution<float> distribution(0, 1);
    for (float &x : array.numbers) x = distribution(random_engine());
    return array;
}
inline Array normal(Shape shape, float deviation = 1) {
    Array array(std::move(shape));
    std::normal_distribution<float> distribution(0, deviation);
    for (float &x : array.numbers) x = distribution(random_engine());
    return array;
}
// 0, 1, 2...
inline Array counting(Shape shape) {
    Array array(std::move(shape));
    for (std::size_t n = 0; n < array.numbers.size(); n++) array.numbers[n] = float(n);
    return array;
}

// Stops an example whose call returns an error.
inline void require(const attune::Status &status) {
    if (status.ok()) return;
    std::printf("%s\n", status.message().c_str());
    std::exit(1);
}

inline std::string text_of(float x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.4g", std::abs(x) < 5e-7f ? 0.0 : double(x));
    return text;
}
inline std::string text_of(const Shape &shape) {
    std::string text = "(";
    for (std::int64_t extent : shape) text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
    return text + ")";
}
// [[1, 2], [3, 4]]
inline std::string text_of(const Array &array, std::size_t dimension = 0, std::size_t first = 0) {
    if (dimension == array.shape.size()) return text_of(array.numbers[first]);
    std::size_t step = 1;
    for (std::size_t n = dimension + 1; n < array.shape.size(); n++) step *= std::size_t(array.shape[n]);
    std::string text = "[";
    for (std::int64_t n = 0; n < array.shape[dimension]; n++)
        text += (n ? ", " : "") + text_of(array, dimension + 1, first + std::size_t(n) * step);
    return text + "]";
}

inline int &differences() {
    static int count = 0;
    return count;
}

// One line or, for long arrays, one line a row. Where `expected` is given, such as a document's output, [ok] says that it was
// compared; a difference is shown, and counted.
inline void show(const std::string &what, std::string text, const std::string &expected = {}) {
    const bool differs = !expected.empty() && text != expected;
    const char *verdict = expected.empty() ? "" : differs ? "  [WRONG]" : "  [ok]";
    const bool rows = text.size() > 80;
    const std::size_t depth = text.find_first_not_of('[');
    for (std::size_t at = 0; rows && (at = text.find("], [", at)) != std::string::npos; at += 3) {
        const std::size_t opened = text.find_first_not_of('[', at + 3) - (at + 3);
        text.replace(at + 2, 1, "\n" + std::string(4 + depth - opened, ' '));
    }
    std::printf("  %s:%s%s%s\n", what.c_str(), rows ? "\n    " : " ", text.c_str(), verdict);
    if (differs) std::printf("  expected: %s\n", expected.c_str()), differences()++;
}
inline void show(const std::string &what, const Array &array, const std::string &expected = {}) {
    show(what, text_of(array), expected);
}

// Checks that every row of weights sums to 1 over its keys.
inline void show_sums(const Array &weights) {
    const std::size_t keys = std::size_t(weights.shape.back());
    double worst = 0;
    for (std::size_t row = 0; row < weights.numbers.size(); row += keys) {
        double sum = 0;
        for (std::size_t j = 0; j < keys; j++) sum += double(weights.numbers[row + j]);
        worst = std::fmax(worst, std::abs(sum - 1));
    }
    show("the weights of every query sum to 1", worst < 1e-6 ? "yes" : "no", "yes");
}

inline int exit_code() { return differences() ? 1 : 0; }

}  // namespace examples
