// Whether views share memory. Never says no where they do; may say yes where they do not, for strides that interleave in
// ways that no layout of attention has.
#pragma once
#include "attune/tensor.h"

namespace attune {

// Bytes between the first and one past the last element, and where they start. False if that does not fit 2^63.
struct Span {
    std::intptr_t begin = 0, end = 0;  // as addresses; equal if there are no elements
};
bool span_of(const ConstView &, Span &);

bool overlap(const ConstView &, const ConstView &);
// Two indices of the view name the same element.
bool overlaps_itself(const ConstView &);

}  // namespace attune
