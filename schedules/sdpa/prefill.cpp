// One task is one tile of queries of one head. Lanes are queries: K and V are read as scalars in their own layout, nothing
// of them is packed, and the softmax of a row needs no operation across lanes. A chunk's scores stay in L1 or L2 between
// the two products.
#include "schedules/prefetch.h"
#include "schedules/require.h"
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

void fetch_next_tiles(const SdpaStages &s, Pipeline pipeline, const ImageParam &key, const ImageParam &value,
                      int channel_tile) {
    constexpr int line_bytes = 64;
    const int channels_of_line = line_bytes / value.type().bytes(),
              tiles_of_line = std::max(channels_of_line / channel_tile, 1);
    int stage = 1;
    for (const SdpaPartials &p : {s.full, s.part}) {
        require(!p.wide_key.defined() && !p.wide_value.defined(), "prefetch_tiles is for inputs of the type that is summed");
        fetch_for_later(pipeline, key, {p.score, 1, p.channel.name()}, {p.logit, 1, p.logit_keys.block.name()}, 1);
        for (std::size_t n = 0; n < p.mixed_keys.size(); n++) {
            const RVar &keys = stage == 1 ? p.mixed_keys[n].key : p.mixed_keys[n].block;
            fetch_for_later(pipeline, value, {p.mixed, int(n) + 1, keys.name()}, {s.chunk_mixed, stage, s.d.name()},
                            tiles_of_line);
        }
        stage++;
    }
}

}  // namespace attune
