// SPDX-License-Identifier: MIT
// Whether views share memory. The answer is never no where they do; it may be yes where they do not, for strides that
// interleave in ways that no layout of attention has.
#pragma once
#include "attune/tensor.h"

namespace attune {

bool overlap(const ConstView &, const ConstView &);
// Whether each index names the same element of both views, which have the same extents.
bool same_memory(const ConstView &, const ConstView &);
// Whether two indices of the view name the same element.
bool overlaps_itself(const ConstView &);

}  // namespace attune
