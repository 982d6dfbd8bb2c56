// SPDX-License-Identifier: MIT
// Kernels for a device that take steps on rows and store them. Where rows go is data there, which nobody has checked: a row
// whose place is not in the output is not stored.
#pragma once
#include "device/device_call.h"
#include "serving/store_rows.h"

namespace attune {

struct DeviceRows {
    ConstView x;                              // (B, H, T, D)
    StepsOfRows steps;                        // whose positions may not be given: then rows stand behind the held ones
    ConstView slots = {};                     // i64 (B, T): of all rows of the output; or each entry has rows of its own, and
    ConstView held_rows = {}, new_rows = {};  // i32 (B): the first new_rows of x stand behind held_rows; not given: none, all
};

// Refuses what kernels for a device do not take of rows `name`; `prefix` stands before the names of members of the steps. `all`
// are the views of the call.
Status check_rows_on_device(std::string_view name, const std::string &prefix, const ConstView &x, const StepsOfRows &,
                            std::span<const NamedView> all);
// No variant: there are no rows.
Status choose_rows_on_device(const Context::State &, const Op &, const DeviceRows &, Choice &);
Status store_rows_on_device(Context::State &, const VariantRecord &, const DeviceRows &, const View &out);
Status store_quantised_rows_on_device(Context::State &, const VariantRecord &, const DeviceRows &, const QuantisedOut &);

}  // namespace attune
