// SPDX-License-Identifier: MIT
#include "schedules/merge/merge_schedules.h"

namespace attune {
using namespace Halide;

void schedule_root(MergeStages &s, MergeOutputs to) {
    for (MergeShares *shares : {&s.of_out, &s.of_sum, &s.of_lse}) {
        for (Func *f : shares->over_parts())
            if (shares == &s.of_lse || f != &shares->last) f->compute_root();
        for (Func &f : shares->weight) f.compute_root();
        if (shares == &s.of_lse) continue;
        for (Func &f : shares->empty) f.compute_root();
        for (Func &f : shares->share) f.compute_root();
    }
    for (Func f : {to.out, to.sum, to.lse}) f.compute_root();
    // There is no sum before the first part, which must not be read.
    for (Func f : {to.out, to.sum}) f.specialize(to.begins);
}

}  // namespace attune
