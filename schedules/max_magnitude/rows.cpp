// SPDX-License-Identifier: MIT
#include "lowering/require.h"
#include "schedules/max_magnitude/max_magnitude_schedules.h"

namespace attune {
using namespace Halide;

void schedule_rows(MaxMagnitudeStages &m, Func out, const MaxMagnitudeParameters &parameters, const Target &target) {
    const int lanes = target.natural_vector_size(Float(32));
    require_multiple("block", parameters.block, "the vector width", lanes);
    const Var e = m.e, t = m.t;

    m.place_max.compute_root().bound(e, 0, parameters.block).vectorize(e, lanes).unroll(e).parallel(t);
    m.tile_max.compute_at(m.place_max, t)
        .bound(e, 0, parameters.block)
        .store_in(MemoryType::Stack)
        .vectorize(e, lanes)
        .unroll(e);
    m.tile_max.update().reorder(e, m.block, m.row).vectorize(e, lanes).unroll(e);
    m.batch_max.compute_root().update().atomic().vectorize(m.place);
    out.compute_root();
}

}  // namespace attune
