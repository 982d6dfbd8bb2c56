// SPDX-License-Identifier: MIT
// The frame of every collective call: checks, agreement of the ranks, the report.
#pragma once
#include "context_parallel/agreement.h"
#include "context_parallel/chunk_attention.h"
#include <chrono>

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

}  // namespace attune
