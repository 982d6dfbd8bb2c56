// SPDX-License-Identifier: MIT
#include "context_parallel/collective.h"
#include "context_parallel/circulation.h"
#include "dispatch/op_call.h"
#include "tensors/checks.h"

namespace attune {

Status check_group(const Communicator &c, const ParallelPlan &plan) {
    if (Status s = check_communicator(c); !s.ok()) return s;
    if (Status s = check_plan(plan); !s.ok()) return s;
    if (plan.of_rank.size() != static_cast<std::size_t>(c.size))
        return invalid("plan.of_rank", "has " + text(plan.of_rank.size()) + " ranks, the communicator " + text(c.size));
    return {};
}

Agreement agreement_of(ParallelCall which, const RankCall &call) {
    Agreement a(which);
    a.add("type", static_cast<std::int64_t>(call.query.dtype));
    a.add("batch", call.query.extent[0]);
    a.add("query heads", call.query.extent[1]), a.add("key heads", call.key.extent[1]);
    a.add("head size", call.query.extent[3]), a.add("value size", call.value.extent[3]);
    if (which == ParallelCall::decode) a.add("queries", call.query.extent[2]);
    a.add(call.plan);
    a.add(call.options);
    a.add(call.user);
    return a;
}

Reporting::~Reporting() {
    if (!report_) return;
    report_->bytes_sent = channel_.bytes_sent();
    report_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    report_->waiting_seconds = waiting_seconds_;
}

Status circulate(Channel &channel, const Geometry &geometry, const ChunkMessage &messages, bool of_keys, Reporting &reporting,
                 const VisitRows &visit, const std::function<Status()> &then) {
    const int rank = channel.communicator().rank;
    Circulation ring(channel, geometry, of_keys,
                     {[&](std::int64_t chunk) { return messages.bytes(chunk); },
                      [&](std::int64_t chunk, char *memory) { messages.pack(chunk, memory); }});
    if (Status s = ring.start(); !s.ok()) return s;
    for (std::int64_t c = 0; c < geometry.chunks(); c++) {
        if (!geometry.needs(rank, c, of_keys)) continue;
        const bool here = geometry.owner(c) == rank;
        const char *message = nullptr;
        if (!here)
            if (Status s = ring.get(c, message); !s.ok()) return s;
        if (Status s = visit(c, here ? messages.local(c) : messages.unpack(c, message)); !s.ok()) return s;
        if (!here) ring.release();
    }
    if (then)
        if (Status s = then(); !s.ok()) return s;
    const Status finished = ring.finish();
    reporting.waited(ring.waiting_seconds());
    return finished;
}

Status answer_forward(Context &context, const Communicator &communicator, const ParallelPlan &plan, const ConstView &query,
                      const ConstView &key, const ConstView &value, const View &out, const ParallelOptions &options,
                      RankForward &forward, const UserOfRanks &of_user) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const View &o,
                          const SdpaOptions &attention, std::span<const CaptureArgument> captures) {
        if (Status s = check_group(communicator, plan); !s.ok()) return s;
        const UserCall user{of_user.attention, captures, nullptr};
        const RankCall call{plan, communicator.rank, q, k, v, attention, of_user.attention ? &user : nullptr};
        return forward(context, communicator, call, o, options.report);
    };
    return answer(context, body, query, key, value, out, options.attention, of_user.captures);
}

}  // namespace attune
