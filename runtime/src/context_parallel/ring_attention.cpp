// SPDX-License-Identifier: MIT
// Ring attention: chunks of keys and values circulate.
#include "context_parallel/collective.h"

namespace attune {

Status ring_forward(Context &context, const Communicator &c, const RankCall &call, const View &out, ParallelReport *report) {
    Channel channel(c);
    Reporting reporting(report, channel);
    const Geometry geometry(call.plan);
    Status own = check_rank_forward(state_of(context), call, out);
    ChunkAttention attention(context, geometry, call, out);
    if (own.ok()) own = attention.begin();
    if (Status s = agreement_of(ParallelCall::ring, call).compare(channel, own); !s.ok()) return s;
    const ChunkMessage messages(geometry, {call.key, call.value});
    const auto add = [&](std::int64_t chunk, const std::vector<ConstView> &rows) {
        return attention.add(chunk, rows[0], rows[1]);
    };
    return circulate(channel, geometry, messages, true, reporting, add, [&] { return attention.end(); });
}

Status ring_attention(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                      const ConstView &key, const ConstView &value, const View &out, const ParallelOptions &options) noexcept {
    return answer_forward(context, communicator, plan, query, key, value, out, options, ring_forward);
}

}  // namespace attune
