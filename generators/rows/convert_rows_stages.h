// SPDX-License-Identifier: MIT
// Queries for a kernel over quantised rows, and its output: converted, scaled by channel, and their channels in the order of
// the kernel. A scale of the caller's own for each channel (ONNX Runtime) is a factor of the query and of the output, and no
// part of the loop over keys. No tile, no vector width, no target.
#pragma once
#include "Halide.h"

namespace attune {

struct ConvertRowsInputs {
    Halide::Func x;           // (d, i, r, h)
    Halide::Func factor;      // (d, h) float, of channel d of the caller's order
    Halide::Expr by_nibbles;  // channels of the kernel's rows are in the order of quantised_rows.h
};
// out (d, i, r, h) = x * factor in the type `to`; to_kernel: from the caller's order of channels to the kernel's, else back.
Halide::Func convert_rows_stages(const ConvertRowsInputs &, Halide::Type to, bool to_kernel);

}  // namespace attune
