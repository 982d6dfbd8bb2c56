// SPDX-License-Identifier: MIT
#include "context_parallel/collective.h"
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
    return a;
}

Reporting::~Reporting() {
    if (!report_) return;
    report_->bytes_sent = channel_.bytes_sent();
    report_->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    report_->waiting_seconds = waiting_seconds_;
}

}  // namespace attune
