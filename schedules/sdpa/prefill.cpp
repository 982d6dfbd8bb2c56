// One task is one tile of queries of one head. Lanes are queries: K and V are read as scalars in their own layout, nothing
// of them is packed, and the softmax of a row needs no operation across lanes. A chunk's scores stay in L1 or L2 between
// the two products.
#include "schedules/sdpa/sdpa_schedules.h"

namespace attune {
using namespace Halide;

void schedule_prefill(SdpaStages &s, Func out, const PrefillTuning &tuning, const Target &target, Expr value_dim) {
    const int lanes = target.natural_vector_size(s.query_t.type());
    require_tiles(tuning, lanes, value_dim);
    const OneTask one_task = one_task_of(s, tuning.tile_q);
    const TileLoops loops = schedule_tiles(s, out, tuning, lanes, one_task);
    schedule_query(s, {out, loops.task}, lanes, one_task);
    for (const bool full : {true, false})
        schedule_chunk(s, full ? s.full : s.part, {s.chunk_mixed, full ? s.full_chunk : s.part_chunk},
                       {s.chunk_mixed, loops.channels}, !full, lanes, one_chunk_of(s, tuning.tile_q));
}

}  // namespace attune
