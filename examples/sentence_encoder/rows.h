// SPDX-License-Identifier: MIT
// Functions of a row that attune does not have: layer norm, GELU, mean pooling. Sums are in double.
#pragma once
#include <cstdint>
#include <functional>

namespace sentence_encoder {

// Calls body(begin, end) for parts of [0, rows), on several threads.
void for_rows(int threads, std::int64_t rows, const std::function<void(std::int64_t begin, std::int64_t end)> &body);

// row = (row - mean) / sqrt(variance + 1e-12) weight + bias (Ba et al., 2016).
void layer_norm(float *row, std::int64_t width, const float *weight, const float *bias);
// x Phi(x), with the Gaussian distribution itself and not an approximation by tanh (Hendrycks and Gimpel, 2016).
void gelu(float *row, std::int64_t width);
// out = the mean of `count` rows, divided by its length.
void mean_of_unit_length(const float *rows, std::int64_t count, std::int64_t width, float *out);

}  // namespace sentence_encoder
