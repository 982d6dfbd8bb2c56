// SPDX-License-Identifier: MIT
// Gradients by bf16 dot products: the rows and the pairs that they read.
#include "generators/attention/backward/builder.h"
#include "generators/math/bf16_bits.h"

namespace attune {
using namespace Halide;

void BackwardBuilder::pair_rows() {
    Var d = s.d, i = s.i, j = s.j, h = s.h, r = s.r, t = s.t, e = s.e;
    s.in_pairs = true;
    // An odd number of channels is padded with a channel of zeros.
    auto padded = [](const Expr &d, const Expr &extent, const Expr &x) { return select(d < extent, x, bfloat16_t(0.0f)); };
    auto at = [&](const Expr &d, const Expr &extent) { return min(d, extent - 1); };
    Expr query = min(i, in.queries - 1), key = key_at(r, false), pair = d * 2 + e;
    s.query_rows = Func("query_rows"), s.grad_rows = Func("grad_rows");
    s.query_rows(d, i, h) = padded(d, in.head_dim, in.query(at(d, in.head_dim), query, h));
    s.grad_rows(d, i, h) = padded(d, in.value_dim, in.grad_out(at(d, in.value_dim), query, h));
    s.key_pairs = Func("key_pairs");
    s.key_pairs(e, d, j) = in.key(channel(d, in.head_dim), min(j * 2 + e, in.keys - 1));
    s.key_t(e, r, d, t) = padded(pair, in.head_dim, in.key(at(pair, in.head_dim), key));
    s.value_t(e, r, d, t) = padded(pair, in.value_dim, in.value(at(pair, in.value_dim), key));
    Expr query_of_pair = min(i * 2 + e, in.queries - 1);
    s.query_pairs = Func("query_pairs"), s.grad_pairs = Func("grad_pairs");
    s.query_pairs(e, d, i, h) = in.query(channel(d, in.head_dim), query_of_pair, h);
    s.grad_pairs(e, d, i, h) = in.grad_out(channel(d, in.value_dim), query_of_pair, h);
}

void BackwardBuilder::round_tile(BackwardTile &p, const std::string &suffix) const {
    Var r = s.r, q = s.q, u = s.u, h = s.h, t = s.t, e = s.e;
    const Func of_weight = p.dropped.defined() ? p.dropped : p.weight, of_gradient = p.score_gradient;
    auto weight = [&](const Expr &e) { return of_weight(r, q * 2 + e, u, h, t); };
    p.gradient_rows = Func("gradient_rows" + suffix);
    p.gradient_rows(r, q, u, h, t) = Tuple(first_bf16_parts(of_gradient(r, q, u, h, t), parts(), numerics.round_pairs));
    for (int n = 0; n < parts(); n++) {
        const std::string name = (parts() > 1 ? std::to_string(n) : "") + suffix;
        Func weights("weight_pairs" + name), gradients("gradient_pairs" + name);
        weights(e, r, q, u, h, t) =
            parts() > 1 ? element_of_pair(pair_of_finite_parts(weight(0), weight(1), n), e) : numerics.round_pairs(weight(e));
        gradients(e, r, q, u, h, t) = parts() > 1 ? parts_at(p.gradient_rows(r, q * 2 + e, u, h, t))[n]
                                                  : numerics.round_pairs(of_gradient(r, q * 2 + e, u, h, t));
        p.weight_pairs.push_back(weights), p.gradient_pairs.push_back(gradients);
    }
}

}  // namespace attune
