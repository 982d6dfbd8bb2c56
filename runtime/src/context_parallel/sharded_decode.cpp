// SPDX-License-Identifier: MIT
// Decoding over caches whose positions are spread over ranks (split-KV over machines). A rank computes before it compares its
// arguments with those of others, so that a call that it refuses at any point is refused by all.
#include "attention/prepared_sdpa.h"
#include "context_parallel/partial_results.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

Status check_decode(Context::State &context, const RankCall &call, const View &out) {
    if (Status s = check_rank_call(call); !s.ok()) return s;
    const SdpaOptions &o = call.options;
    if (o.dropout.probability != 0) return unsupported("dropout", "is not taken by sharded_decode");
    for (const NamedView &v : {NamedView{"mask", o.mask}, NamedView{"bias", o.bias}})
        if (v.view.given()) return unsupported(v.name, "is not taken by sharded_decode");
    SdpaOptions checked = o;
    checked.valid_lens = {};
    return check_attention_of_rank(context, call, out, checked);
}

// The result over one chunk of this rank. Every entry has its own position of query 0 among the keys of the chunk.
Status attend_chunk(Context &context, const RankCall &call, const Geometry &geometry, std::int64_t chunk, const View &out,
                    const View &lse) {
    const SdpaOptions &o = call.options;
    const std::int64_t first = geometry.begin(chunk), count = geometry.count(chunk), batch = call.query.extent[0];
    std::vector<std::int32_t> lens, offsets;
    for (std::int64_t b = 0; b < batch; b++) {
        const std::int64_t held = o.valid_lens.given() ? int_at(o.valid_lens, b) : call.plan.positions;
        lens.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(held - first, 0, count)));
        offsets.push_back(static_cast<std::int32_t>(held - call.query.extent[2] - first));
    }
    SdpaOptions of_chunk = o;
    of_chunk.sinks = {}, of_chunk.lse = lse;
    of_chunk.valid_lens = ConstView(lens.data(), {batch});
    if (uses_positions(call)) of_chunk.offsets = ConstView(offsets.data(), {batch});
    if (o.causal != Causal::none) of_chunk.causal = Causal::offset;
    const std::int64_t row = geometry.row(chunk);
    const PairOrigin origin{.key = first, .keys = call.plan.positions};
    return attend_pair(context, call.user, origin, call.query, rows_of(call.key, row, count), rows_of(call.value, row, count),
                       out, of_chunk);
}

}  // namespace

Status decode_forward(Context &context, const Communicator &c, const RankCall &call, const View &out, ParallelReport *report) {
    Channel channel(c);
    Reporting reporting(report, channel);
    const Geometry geometry(call.plan);
    PartialResults parts(channel, geometry, out);
    const auto compute = [&]() -> Status {
        if (Status s = check_decode(state_of(context), call, out); !s.ok()) return s;
        if (Status s = parts.begin(); !s.ok()) return s;
        const std::vector<std::int64_t> &own = geometry.chunks_of(c.rank);
        for (std::size_t n = 0; n < own.size(); n++)
            if (Status s = attend_chunk(context, call, geometry, own[n], parts.own_out(n), parts.own_lse(n)); !s.ok()) return s;
        return {};
    };
    if (Status s = agreement_of(ParallelCall::decode, call).compare(channel, compute()); !s.ok()) return s;
    if (Status s = reporting.wait_for([&] { return parts.gather(); }); !s.ok()) return s;
    return parts.merge(context, call.options.sinks, call.options.lse);
}

Status sharded_decode(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                      const ConstView &key, const ConstView &value, const View &out, const ParallelOptions &options) noexcept {
    return answer_forward(context, communicator, plan, query, key, value, out, options, decode_forward);
}

}  // namespace attune
