// SPDX-License-Identifier: MIT
// A linear map of an input of attention, into scratch, and its gradients.
#pragma once
#include "attune/context.h"
#include "layers/linear_backward_call.h"
#include <optional>

namespace attune {

class Projection {
public:
    // input weight^T + bias; weight (N, K) and bias (N) may be left out. Names are those of the public header.
    Projection(NamedView input, NamedView weight, NamedView bias) : input_(input), weight_(weight), bias_(bias) {}

    // Checks input, weight and bias, chooses kernels, allocates the result: then result() may be checked as an input of
    // attention.
    Status prepare(Context::State &);
    // The input itself where there is no weight.
    const ConstView &result() const { return weight_.view.given() ? result_ : input_.view; }
    // Leaves out the rows from `rows` on of each batch entry and head, which nothing will read.
    Status keep_rows(const Context::State &, std::int64_t rows);
    // Computes the result.
    Status run(Context::State &) const;

private:
    NamedView input_, weight_, bias_;
    std::optional<ScratchBlock> memory_;
    ConstView result_;
    std::optional<ProductCall> product_;
};

// Gradients of input, weight and bias from the gradient of the result, which is in scratch. Without a weight the gradient of
// the input is that of the result.
class ProjectionGradient {
public:
    ProjectionGradient(const ConstView &input, const ConstView &weight, const LinearGradients &wanted)
        : input_(input), weight_(weight), wanted_(wanted) {}

    // Allocates the gradient of `projected`, if it is needed.
    Status prepare(Context::State &, const ConstView &projected);
    const View &result() const { return result_; }
    // Chooses kernels, once everything has been checked.
    Status choose(const Context::State &);
    Status run(Context::State &) const;

private:
    ConstView input_, weight_;
    LinearGradients wanted_;
    std::optional<ScratchBlock> memory_;
    View result_;
    std::optional<LinearBackwardCall> call_;
};

}  // namespace attune
