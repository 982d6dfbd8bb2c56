// SPDX-License-Identifier: MIT
// Whether views share memory. Never says no where they do; may say yes where they do not, for strides that interleave in
// ways that no layout of attention has.
#pragma once
#include "attune/tensor.h"

namespace attune {

bool overlap(const ConstView &, const ConstView &);
// Each index names the same element of both, which have the same extents.
bool same_memory(const ConstView &, const ConstView &);
// Two indices of the view name the same element.
bool overlaps_itself(const ConstView &);

}  // namespace attune
