// SPDX-License-Identifier: MIT
#include "generators/masked_softmax_backward/masked_softmax_backward_stages.h"

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

MaskedSoftmaxBackwardStages masked_softmax_backward_stages(const MaskedSoftmaxBackwardInputs &in, int block) {
    MaskedSoftmaxBackwardStages s;
    const Var e = s.e, j = s.j, i = s.i, h = s.h, b = s.b;
    const Type t = in.weights.type();
    const Expr zero = make_const(t, 0), last = (in.keys - 1) / block;
    auto product = [&](const Expr &key) {
        const Expr p = in.weights(key, i, h, b);
        return select(p == 0, zero, p * in.grad_weights(key, i, h, b));
    };
    s.last_product = Func("last_product");
    const Expr last_key = last * block + e;
    s.last_product(e, i, h, b) = select(last_key < in.keys, product(min(last_key, in.keys - 1)), zero);

    RDom whole(0, last, "whole"), place(0, block, "place");
    s.whole = whole.x, s.place = place.x;
    s.place_sum = Func("place_sum");
    s.place_sum(e, i, h, b) = s.last_product(e, i, h, b);
    s.place_sum(e, i, h, b) += product(whole * block + e);
    s.row_sum = Func("row_sum");
    s.row_sum(i, h, b) = zero;
    s.row_sum(i, h, b) += s.place_sum(place, i, h, b);

    const Expr p = in.weights(j, i, h, b);
    s.out = Func("grad_scores_stage");
    s.out(j, i, h, b) = select(j < in.lengths(i, b) && p != 0, p * (in.grad_weights(j, i, h, b) - s.row_sum(i, h, b)), zero);
    return s;
}

}  // namespace attune
