// SPDX-License-Identifier: MIT
// Gradients of attention in the letters of FlashAttention-2 (Dao 2023): the forward stores nothing of the size of S; P is
// recomputed from the log-sum-exp of a row.
//
//   P_qk = e^(s_qk - lse_q)  D_q = sum_d dO_qd O_qd  dP = dO V^T  dS = P (dP - D)  dV = P^T dO  dQ = dS K  dK = dS^T Q
//
// D depends on a row alone (backward/row_stages.h). Steps of the score multiply dS by their derivative (score_derivative.h),
// dropout and a factor of the weights multiply dP; the products belong to the forms.
#pragma once
#include "generators/math/exp2.h"
#include <numbers>

namespace attune {

struct SoftmaxGradient {
    using Expr = Halide::Expr;

    PowerInstructions powers;
    using Exp2 = Expr (*)(const Expr &x, const Expr &factor, const PowerInstructions &);

    // Subtracted before the product with log2(e): the difference is small where s and lse are both large.
    Expr P(const Expr &s, const Expr &lse, Exp2 exp2) const {
        return exp2(s - lse, Halide::Internal::make_const(s.type(), std::numbers::log2e), powers);
    }
    Expr dS(const Expr &P, const Expr &dP, const Expr &D) const { return P * (dP - D); }
};

}  // namespace attune
