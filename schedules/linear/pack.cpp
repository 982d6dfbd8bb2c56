// SPDX-License-Identifier: MIT
// Weights packed word by word, or by transposing square blocks in registers.
#include "lowering/require.h"
#include "schedules/linear/pack_schedules.h"
#include "schedules/transpose.h"

namespace attune {
using namespace Halide;

void schedule_root(PackStages &, Func packed) { packed.compute_root(); }

void schedule_blocks(PackStages &s, Func packed, const BlockParameters &parameters, const Target &target) {
    const int words = target.natural_vector_size(packed.type());
    require(s.transpose && parameters.block <= words,
            "block must be from 2 to the words of a vector, " + std::to_string(words));
    require_multiple("a packed weight's panel", PackedPanels::columns, "block", parameters.block);
    Var no("no"), ni("ni"), ko("ko"), ki("ki");
    // Along k within a block of columns: the addresses of its rows in memory are found once.
    packed.bound(s.n, 0, PackedPanels::columns)
        .split(s.k, ko, ki, parameters.block, TailStrategy::GuardWithIf)
        .split(s.n, no, ni, parameters.block)
        .reorder(ni, ki, ko, no, s.p)
        .vectorize(ni)
        .unroll(ki)
        .parallel(s.p);
    schedule_transpose(*s.transpose, LoopLevel(packed, ko));
}

}  // namespace attune
