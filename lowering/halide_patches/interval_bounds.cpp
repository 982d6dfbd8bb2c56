// SPDX-License-Identifier: MIT
// Interval's questions whether a bound is infinite, for Halide's compiler: answered by comparing addresses.
//
// Halide 21 copies the expression of infinity, whose count of references is atomic, for each comparison: 7 % of the time in
// which a kernel of attention is made. libHalide calls a program's definitions of its exported functions; kernels are the same.
#include <Halide.h>

namespace Halide::Internal {

namespace {
const IRNode *positive_infinity() {
    static const IRNode *const node = Interval::pos_inf().get();
    return node;
}

const IRNode *negative_infinity() {
    static const IRNode *const node = Interval::neg_inf().get();
    return node;
}
}  // namespace

bool Interval::is_empty() const { return min.get() == positive_infinity() || max.get() == negative_infinity(); }

bool Interval::has_upper_bound() const { return max.get() != positive_infinity() && !is_empty(); }

bool Interval::has_lower_bound() const { return min.get() != negative_infinity() && !is_empty(); }

}  // namespace Halide::Internal
