// SPDX-License-Identifier: MIT
// The variant of an op on rows, which has one schedule.
#pragma once
#include "dispatch/op_call.h"
#include "dispatch/ops.h"

namespace attune {

inline Status choose_rows(const Context::State &context, const Op &op, DType dtype, Choice &choice) {
    static constexpr Candidate candidates[] = {{Schedule::rows, "", "always"}};
    return choose_variant({.op = op, .dtype = dtype}, candidates, forced_variant(context, {}, op), choice);
}

}  // namespace attune
