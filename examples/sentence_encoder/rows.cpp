// SPDX-License-Identifier: MIT
#include "rows.h"
#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

// The compiler makes a function for each of these instruction sets, and the program takes the processor's.
#if defined(__x86_64__) && defined(__GLIBC__)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

namespace sentence_encoder {
namespace {

// erf(x) = x P(x^2) / Q(x^2) on [-4, 4], and +-1 beyond, to 4e-7. std::erf is a call that no compiler vectorises.
inline float error_function(float x) {
    const float at = std::min(std::max(x, -4.0f), 4.0f), u = at * at;
    const float p =
        1.12837911f +
        u * (0.207115561f +
             u * (0.0515235737f + u * (0.003990144f + u * (0.000147275132f + u * (-1.94225322e-06f + u * 1.91108658e-08f)))));
    const float q = 1 + u * (0.516882658f + u * (0.117966712f + u * (0.0149572203f + u * 0.00102100498f)));
    return std::min(std::max(at * p / q, -1.0f), 1.0f);
}

// The sum of term(x) over a row, in eight parts side by side.
template<typename Term> inline double sum_of(const float *row, std::int64_t width, const Term &term) {
    constexpr std::int64_t parts = 8;
    double part[parts] = {}, sum = 0;
    const std::int64_t whole = width / parts * parts;
    for (std::int64_t d = 0; d < whole; d += parts)
        for (std::int64_t n = 0; n < parts; n++) part[n] += term(double(row[d + n]));
    for (std::int64_t d = whole; d < width; d++) sum += term(double(row[d]));
    for (double x : part) sum += x;
    return sum;
}

}  // namespace

void for_rows(int threads, std::int64_t rows, const std::function<void(std::int64_t, std::int64_t)> &body) {
    constexpr std::int64_t least = 64;  // rows that are worth a thread
    const std::int64_t parts = std::clamp<std::int64_t>(rows / least, 1, threads);
    std::vector<std::thread> others;
    for (std::int64_t n = 1; n < parts; n++) others.emplace_back(body, rows * n / parts, rows * (n + 1) / parts);
    body(0, rows / parts);
    for (std::thread &t : others) t.join();
}

VECTORISED void layer_norm(float *row, std::int64_t width, const float *weight, const float *bias) {
    constexpr double epsilon = 1e-12;
    const double mean = sum_of(row, width, [](double x) { return x; }) / double(width);
    const double variance = sum_of(row, width, [=](double x) { return (x - mean) * (x - mean); }) / double(width);
    const double scale = 1 / std::sqrt(variance + epsilon);
    for (std::int64_t d = 0; d < width; d++)
        row[d] = float((double(row[d]) - mean) * scale * double(weight[d]) + double(bias[d]));
}

VECTORISED void gelu(float *row, std::int64_t width) {
    constexpr float root_half = 0.70710678f;
    for (std::int64_t d = 0; d < width; d++) row[d] = 0.5f * row[d] * (1 + error_function(row[d] * root_half));
}

void mean_of_unit_length(const float *rows, std::int64_t count, std::int64_t width, float *out) {
    std::vector<double> sum(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < count; i++)
        for (std::int64_t d = 0; d < width; d++) sum[std::size_t(d)] += double(rows[i * width + d]);
    double squares = 0;
    for (double x : sum) squares += x * x;
    const double scale = squares > 0 ? 1 / std::sqrt(squares) : 0;  // the mean's own division cancels
    for (std::int64_t d = 0; d < width; d++) out[d] = float(sum[std::size_t(d)] * scale);
}

}  // namespace sentence_encoder
