// SPDX-License-Identifier: MIT
// Element-wise layers of a Llama block, as plain loops: a few thousandths of the work of its products. Sums are in a fixed
// order, so that the bits of a row do not depend on the rows beside it.
//
// The residual stream is f32; inputs of products are of the model's type, f32 or bf16, to which they are rounded here.
#pragma once
#include "tensors.h"
#include <cstdint>

namespace language_model {

// A row of the embedding, of either type, as f32.
void embed(const attune::ConstView &table, std::int64_t token, float *out);
// out (rows, width) = x / sqrt(mean(x^2) + eps) * weight: RMS norm (Zhang and Sennrich, 2019).
void rms_norm(const float *x, const float *weight, float eps, const attune::View &out);
// x += y (rows, width).
void add(const attune::ConstView &y, float *x);
// out (rows, hidden) = SiLU(gate) * up (Shazeer, 2020: SwiGLU), where gate_up (rows, 2 * hidden) holds both side by side.
void swiglu(const attune::ConstView &gate_up, const attune::View &out);
// x as f32.
void widen(const attune::ConstView &x, float *out);
// log(sum of exp(x[n])).
double log_sum_exp(const float *x, std::int64_t count);

}  // namespace language_model
