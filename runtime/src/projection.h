// A linear map of an input of attention, into scratch.
#pragma once
#include "attune/context.h"
#include "checks.h"
#include "context_state.h"
#include <optional>

namespace attune {

class Projection {
public:
    // input weight^T + bias, of which weight (N, K) and bias (N) may be left out. Names are those of the public header.
    Projection(NamedView input, NamedView weight, NamedView bias) : input_(input), weight_(weight), bias_(bias) {}

    // Checks the three, and takes memory for the result: after it result() may be checked as an input of attention.
    Status prepare(Context::State &);
    // The input itself where there is no weight.
    const ConstView &result() const { return weight_.view.given() ? result_ : input_.view; }
    std::size_t bytes() const { return bytes_; }  // of the result, where there is a weight
    // Computes the result.
    Status run(Context &) const;

private:
    NamedView input_, weight_, bias_;
    std::optional<ScratchBlock> memory_;
    ConstView result_;
    std::size_t bytes_ = 0;
};

}  // namespace attune
