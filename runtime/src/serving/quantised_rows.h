// SPDX-License-Identifier: MIT
// Attention over quantised rows: by a kernel that reads them, or over the same rows as numbers.
#pragma once
#include "attention/sdpa_call.h"

namespace attune {

// Refuses types that no kernel makes of quantised rows.
Status check_dequantise(const Context::State &, DType);
// SdpaCall::dequantise.
Status dequantise_rows(Context::State &, const ConstView &rows, const RowScales &, const ConstView &row_shift, const View &out);

// The op whose kernels read rows of i8, or of u8, in place.
const Op &op_of_type(DType);
// The same for a call, where it pays: for few queries, which do not reuse numbers that are made once. Its
// scores and sums are f32 for any type of query. Null: none.
const Op *op_of_quantised(const SdpaCall &);
// The problem that its variants are chosen for.
SdpaProblem problem_of_quantised(SdpaProblem);
// Runs a variant of the op.
Status run_quantised(Context &, const SdpaCall &, const Op &, AttentionChoice &);

}  // namespace attune
