// SPDX-License-Identifier: MIT
#include "rows.h"
#include <algorithm>
#include <cmath>
#include <thread>
#include <vector>

namespace sentence_encoder {

void for_rows(int threads, std::int64_t rows, const std::function<void(std::int64_t, std::int64_t)> &body) {
    constexpr std::int64_t least = 64;  // rows that are worth a thread
    const std::int64_t parts = std::clamp<std::int64_t>(rows / least, 1, threads);
    std::vector<std::thread> others;
    for (std::int64_t n = 1; n < parts; n++) others.emplace_back(body, rows * n / parts, rows * (n + 1) / parts);
    body(0, rows / parts);
    for (std::thread &t : others) t.join();
}

void layer_norm(float *row, std::int64_t width, const float *weight, const float *bias) {
    constexpr double epsilon = 1e-12;
    double sum = 0, squares = 0;
    for (std::int64_t d = 0; d < width; d++) sum += double(row[d]);
    const double mean = sum / double(width);
    for (std::int64_t d = 0; d < width; d++) squares += (double(row[d]) - mean) * (double(row[d]) - mean);
    const double scale = 1 / std::sqrt(squares / double(width) + epsilon);
    for (std::int64_t d = 0; d < width; d++)
        row[d] = float((double(row[d]) - mean) * scale * double(weight[d]) + double(bias[d]));
}

void gelu(float *row, std::int64_t width) {
    constexpr float root_half = 0.70710678f;
    for (std::int64_t d = 0; d < width; d++) row[d] = 0.5f * row[d] * (1 + std::erf(row[d] * root_half));
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
