// SPDX-License-Identifier: MIT
// The frame of every collective call: checks, agreement of the ranks, the passage of chunks, the report.
#pragma once
#include "context_parallel/agreement.h"
#include "context_parallel/chunk_attention.h"
#include <chrono>
#include <functional>
#include <vector>

namespace attune {

// Checks a communicator and its plan, without which a rank cannot even refuse; other ranks then meet their time limit.
Status check_group(const Communicator &, const ParallelPlan &);

// The comparison of function, plan, sizes and options, on which ranks must agree.
Agreement agreement_of(ParallelCall, const RankCall &);

// The report of a call, written when it ends, however it ends.
class Reporting {
public:
    Reporting(ParallelReport *report, const Channel &channel) : report_(report), channel_(channel) {}
    ~Reporting();
    Reporting(const Reporting &) = delete;
    void waited(double seconds) { waiting_seconds_ += seconds; }
    // Seconds of f() as time of waiting.
    template<typename F> Status wait_for(const F &f) {
        const auto start = std::chrono::steady_clock::now();
        const Status s = f();
        waited(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
        return s;
    }

private:
    ParallelReport *report_;
    const Channel &channel_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    double waiting_seconds_ = 0;
};

// Visits the rows of every chunk that this rank needs, in the order of the chunks: its own rows where they lie, those of other
// ranks as they come round (circulation.h). `then` runs before the wait for messages that still go.
using VisitRows = std::function<Status(std::int64_t chunk, const std::vector<ConstView> &rows)>;
Status circulate(Channel &, const Geometry &, const ChunkMessage &, bool of_keys, Reporting &, const VisitRows &,
                 const std::function<Status()> &then = {});

// One rank's part of a forward call, whose group has been checked.
using RankForward = Status(Context &, const Communicator &, const RankCall &, const View &out, ParallelReport *);
RankForward ring_forward, gathered_forward, head_parallel_forward, decode_forward;

// A user's attention in a collective call; of the library's attention there is none.
struct UserOfRanks {
    const detail::AttentionRecord *attention = nullptr;
    ArrayView<const CaptureArgument> captures = {};
};
// The answer of a forward call, and of one of the gradients: grad_captures are those of a user's attention.
Status answer_forward(Context &, const Communicator &, const ParallelPlan &, const ConstView &query, const ConstView &key,
                      const ConstView &value, const View &out, const ParallelOptions &, RankForward &,
                      const UserOfRanks & = {}) noexcept;
Status answer_backward(Context &, const Communicator &, const ParallelPlan &, const ConstView &query, const ConstView &key,
                       const ConstView &value, const SdpaForward &, const SdpaGradients &, const ParallelOptions &,
                       const UserOfRanks & = {}, ArrayView<const View> grad_captures = {}) noexcept;

}  // namespace attune
