// SPDX-License-Identifier: MIT
// Rows one after another on one thread: they are few. Lanes are channels.
#include "schedules/convert_rows/convert_rows_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(Func out, const Expr &by_nibbles, const Target &target) {
    const int lanes = target.natural_vector_size(Float(32));
    const Var d = out.args()[0];
    out.specialize(!by_nibbles).vectorize(d, lanes, TailStrategy::GuardWithIf);
    out.vectorize(d, lanes, TailStrategy::GuardWithIf);
}

}  // namespace attune
