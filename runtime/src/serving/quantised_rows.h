// SPDX-License-Identifier: MIT
// Attention over quantised rows: by a kernel that reads them, or over the same rows as numbers.
#pragma once
#include "attention/sdpa_call.h"

namespace attune {

// Refuses types that no kernel makes of quantised rows.
Status check_dequantise(const Context::State &, DType);
// SdpaCall::dequantise.
Status dequantise_rows(Context::State &, const ConstView &rows, const RowScales &, const ConstView &row_shift, const View &out);

// Writes rows of 16 bits (1, H, S, D) as f32, by the kernel that converts queries.
Status widen_rows(Context::State &, const ConstView &rows, const View &out);

// The op whose kernels read rows of i8, or of u8, in place.
const Op &op_of_type(DType);
// The op whose kernels read the rows of a call in place; null where the rows are made numbers first: many queries use such
// numbers again.
const Op *op_of_quantised(const SdpaCall &);
// The problem for which a variant of that op is chosen: of the type of query where a kernel takes it, else of f32, to which
// queries are converted.
SdpaProblem problem_of_quantised(const SdpaCall &, const Op &, std::string_view forced = {});
// Runs the chosen variant of the op: queries and output are converted where the kernel needs it.
Status run_quantised(Context &, const SdpaCall &, const Op &, AttentionChoice &);

}  // namespace attune
