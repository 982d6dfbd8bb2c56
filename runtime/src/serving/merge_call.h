// SPDX-License-Identifier: MIT
// A call of merge_attention(), on the host and on a device.
#pragma once
#include "attune/merge.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"
#include <array>
#include <string>
#include <vector>

namespace attune {

// A part as its caller names it.
struct Part {
    std::string name_of_out, name_of_lse;
    ConstView out, lse;
};

struct MergeCall {
    std::vector<Part> parts;
    View out, lse;
};

// Checks everything, and turns the views into those of rank 4, (B, H, Sq, Dv); those of lse lack the last dimension.
Status check_merge(MergeCall &);
std::string merge_sizes_text(const MergeCall &);
MergeCall as_host(const MergeCall &);

// Tensors on a device, after find_device() has found it.
Status merge_on_device(Context::State &, MergeCall);

}  // namespace attune
