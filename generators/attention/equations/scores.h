// SPDX-License-Identifier: MIT
// Scores of the library. Each is a PairTerm or a ScoreStep and nothing more, as users' scores are.
#pragma once
#include "generators/attention/equations/score.h"
#include <functional>
#include <vector>

namespace attune {

// Cosine: sum q k / (|q| |k|), 0 where q or k is all zeros. The query (d, s, h, b) becomes rows of norms from 1/2 to 1, scaled
// by powers of two, so that no product with a key leaves the range of the type; with scales_keys so does the key, for forms
// whose products are of parts of keys, the smallest of which would vanish.
PairTerm cosine_pair(Halide::Func &query, Halide::Func &key, const Halide::Expr &head_dim, Halide::Type, bool scales_keys);

// 1 / |x| of each row x(d, row...), as a Func of that name: 0 for rows of zeros or with Inf, NaN for rows with NaN. No square
// overflows or vanishes in a row whose norm is between 2^-121 and 2^116 (f64: 2^-1011 and 2^1006).
Halide::Func inverse_norms(const std::string &name, const std::function<Halide::Expr(const Halide::Expr &d)> &x,
                           const std::vector<Halide::Var> &row, const Halide::Expr &head_dim, Halide::Type);

// Gaussian: -1/2 sum (q - k)^2. Not computed as a product and two norms, which would cancel.
PairTerm gaussian_pair(Halide::Type);

// Additive (Bahdanau et al. 2015): sum w tanh(q + k) + bias. additive_pair() takes an exponential for each pair and any q and
// k; additive_separable_pair() takes exponentials of each query and key alone, tanh(q + k) = (e^2q e^2k - 1) / (e^2q e^2k + 1),
// and needs |q|, |k| <= separable_limit (float).
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
