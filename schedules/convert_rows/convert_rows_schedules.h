// SPDX-License-Identifier: MIT
// Schedule of the conversion of queries and outputs of kernels over quantised rows.
#pragma once
#include "generators/rows/convert_rows_stages.h"

namespace attune {

void schedule_rows(Halide::Func out, const Halide::Expr &by_nibbles, const Halide::Target &);

}  // namespace attune
