// SPDX-License-Identifier: MIT
// Base of the passes that a schedule relies on.
#pragma once
#include "lowering/require.h"
#include <string>
#include <utility>

namespace attune {

// An IRMutator that refuses a kernel in which it finds nothing to do: a schedule requested the pass, so either the schedule or
// the pass no longer fits Halide's code.
class RequiredPass : public Halide::Internal::IRMutator {
    const std::string nothing_found_;
    bool begun_ = false;

protected:
    bool found_ = false;

public:
    explicit RequiredPass(std::string nothing_found) : nothing_found_(std::move(nothing_found)) {}

    using IRMutator::mutate;
    Halide::Internal::Stmt mutate(const Halide::Internal::Stmt &s) override {
        if (begun_) return IRMutator::mutate(s);
        begun_ = true, found_ = false;
        const Halide::Internal::Stmt whole = IRMutator::mutate(s);
        begun_ = false;
        require(found_, nothing_found_);
        return whole;
    }
};

}  // namespace attune
