// SPDX-License-Identifier: MIT
// The scores of the library. Each is a PairTerm or a ScoreStep and nothing more: users write theirs the same way.
#pragma once
#include "generators/attention/equations/score.h"
#include <functional>
#include <vector>

namespace attune {

// sum q k / (|q| |k|), 0 where q or k is all zeros. The query (d, s, h, b) becomes rows of norms from 1/2 to 1, by powers of
// two, so that no product with a key leaves the range of the type.
PairTerm cosine_pair(Halide::Func &query, const Halide::Func &key, const Halide::Expr &head_dim, Halide::Type);

// 1 / |x| of each row x(d, row...), a Func of that name: 0 of zeros or Inf, NaN where there is a NaN. No square overflows or
// vanishes of a row whose norm is between 2^-121 and 2^116 (f64: 2^-1011 and 2^1006).
Halide::Func inverse_norms(const std::string &name, const std::function<Halide::Expr(const Halide::Expr &d)> &x,
                           const std::vector<Halide::Var> &row, const Halide::Expr &head_dim, Halide::Type);

// -1/2 sum (q - k)^2. Not as a product and two norms, which would cancel.
PairTerm gaussian_pair(Halide::Type);

// sum w tanh(q + k) + bias. The one with an exponential for each pair, for any q and k; and the one that takes exponentials
// of each query and key alone, tanh(q + k) = (e^2q e^2k - 1) / (e^2q e^2k + 1), which needs |q|, |k| <= separable_limit
// (float).
struct AdditiveInputs {
    Halide::Func weight;  // (d)
    Halide::Expr bias;    // double
};
PairTerm additive_pair(const AdditiveInputs &, Halide::Type);
PairTerm additive_separable_pair(const AdditiveInputs &, Halide::Type);

// cap tanh(x / cap) where cap > 0.
ScoreStep softcap_step(Halide::Expr cap, Halide::Type);
// + bias(j, i, h, b), where given.
ScoreStep bias_step(const Halide::Func &bias, Halide::Expr given);
// - slope(h, b) |position - j|, where given.
ScoreStep alibi_step(const Halide::Func &slopes, Halide::Expr given, Halide::Type);
// mask(j, i, h, b) != 0, where given.
ScoreStep mask_step(const Halide::Func &mask, Halide::Expr given);

}  // namespace attune
