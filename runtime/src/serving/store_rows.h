// SPDX-License-Identifier: MIT
// Kernels that take steps on rows and store them at places that are data.
#pragma once
#include "serving/choose_rows.h"
#include "serving/row_steps.h"
#include <memory>
#include <vector>

namespace attune {

// Where row t of batch entry b goes: row i of entry p of the output, as {i, p}, and nowhere where i is negative. In the order
// of (B, T).
struct RowPlace {
    std::int32_t row, entry;
};
using RowPlaces = std::vector<RowPlace>;

// Checks rows (T, H, D), or (B, H, T, D) too where `ranks` is 4: type, memory, last extent and stride.
Status check_rows(std::string_view name, const ConstView &rows, int most_rank);

// Rows x (B, H, T, D) into out (P, H, I, D), of one type.
Status store_rows(Context::State &, const VariantRecord &, const StepsOfRows &, const StepTables &, const ConstView &x,
                  const RowPlaces &, const View &out);

// Rows quantised as pool.h says. Views that a form does not have are not given.
struct QuantisedOut {
    View rows;               // (P, H, I, D) i8, or (P, H, I, D / 2) u8
    View scale, minimum;     // (P, H, I, groups)
    ConstView static_scale;  // (H, D) f32: instead of scale
    std::int64_t group = 0;  // channels of a group of int4
};
Status store_quantised_rows(Context::State &, const VariantRecord &, const StepsOfRows &, const StepTables &,
                            const ConstView &x, const RowPlaces &, const QuantisedOut &);

}  // namespace attune
