// SPDX-License-Identifier: MIT
// Ring attention: chunks of keys and values circulate.
#include "context_parallel/circulation.h"
#include "context_parallel/collective.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

// Computes with all chunks of keys in their order: those of this rank, and the messages of others.
Status attend_ring(ChunkAttention &attention, Circulation &ring, const Geometry &geometry, const ChunkMessage &messages,
                   int rank) {
    const std::vector<std::int64_t> &own = geometry.chunks_of(rank);
    for (std::int64_t c = 0; c < geometry.chunks(); c++) {
        if (std::none_of(own.begin(), own.end(), [&](std::int64_t a) { return geometry.sees(a, c); })) continue;
        const bool here = geometry.owner(c) == rank;
        const char *message = nullptr;
        if (!here)
            if (Status s = ring.get(c, message); !s.ok()) return s;
        const std::vector<ConstView> rows = here ? messages.local(c) : messages.unpack(c, message);
        if (Status s = attention.add(c, rows[0], rows[1]); !s.ok()) return s;
        if (!here) ring.release();
    }
    return {};
}

Status run(Context &context, const Communicator &c, const RankCall &call, const View &out, ParallelReport *report) {
    Channel channel(c);
    Reporting reporting(report, channel);
    const Geometry geometry(call.plan);
    Status own = check_rank_forward(state_of(context), call, out);
    ChunkAttention attention(context, geometry, call, out);
    if (own.ok()) own = attention.begin();
    if (Status s = agreement_of(ParallelCall::ring, call).compare(channel, own); !s.ok()) return s;
    const ChunkMessage messages(geometry, {call.key, call.value});
    Circulation ring(channel, geometry, true,
                     {[&](std::int64_t chunk) { return messages.bytes(chunk); },
                      [&](std::int64_t chunk, char *memory) { messages.pack(chunk, memory); }});
    if (Status s = ring.start(); !s.ok()) return s;
    if (Status s = attend_ring(attention, ring, geometry, messages, c.rank); !s.ok()) return s;
    if (Status s = attention.end(); !s.ok()) return s;
    const Status finished = ring.finish();
    reporting.waited(ring.waiting_seconds());
    return finished;
}

}  // namespace

Status ring_attention(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                      const ConstView &key, const ConstView &value, const View &out, const ParallelOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const SdpaOptions &attention) {
        if (Status s = check_group(communicator, plan); !s.ok()) return s;
        return run(context, communicator, {plan, communicator.rank, q, k, v, attention}, o, options.report);
    };
    return answer(context, body, query, key, value, out, options.attention);
}

}  // namespace attune
