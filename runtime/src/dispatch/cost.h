// SPDX-License-Identifier: MIT
// Predicted times, by which dispatch chooses among variants: coefficients of a variant times terms of a call.
//
//     time = share * sum_i coefficient_i * term_i + 2 * fork
//
// The coefficients are data of a target (schedules/<op>/costs), fitted by `attune tune --dispatch` to calls on one thread; the
// terms count what a variant does for the sizes of a call, with what its tiles compute for padding (attention_cost.cpp,
// product_cost.cpp). The time is twice that of two threads, where the work is worth two threads at all: `share` is how much
// longer than half of the tasks one of them takes, and `fork` is what their parallel loops take to begin and to end. A choice
// never depends on the threads of a Context.
#pragma once
#include "attune/plan.h"
#include "dispatch/runnable.h"
#include "execution/thread_team.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

namespace attune {

using detail::CostTerms;

struct PredictedVariant {
    const Runnable *variant = nullptr;
    double ns = 0;
};

inline double predicted_ns(const Runnable &v, const CostTerms &terms) {
    return std::inner_product(terms.begin(), terms.end(), v.cost.begin(), 0.0);
}

// The quickest variant that takes() a call, and the next one.
template<typename Takes, typename Time>
PredictedVariant quickest_of(std::span<const Runnable> list, const Takes &takes, const Time &time, PredictedVariant *next) {
    PredictedVariant best, second;
    for (const Runnable &v : list) {
        if (!takes(v)) continue;
        const PredictedVariant one{&v, time(v)};
        if (!best.variant || one.ns < best.ns)
            second = best, best = one;
        else if (!second.variant || one.ns < second.ns)
            second = one;
    }
    if (next) *next = second;
    return best;
}

// Every variant that takes() a call, the quickest first.
template<typename Takes, typename Time>
std::vector<PredictedVariant> sorted_by_time(std::span<const Runnable> list, const Takes &takes, const Time &time) {
    std::vector<PredictedVariant> all;
    for (const Runnable &v : list)
        if (takes(v)) all.push_back({&v, time(v)});
    std::stable_sort(all.begin(), all.end(), [](const auto &a, const auto &b) { return a.ns < b.ns; });
    return all;
}
std::vector<PlanCandidate> plan_candidates(const std::vector<PredictedVariant> &);

// How two threads share the tasks of a call.
struct Sharing {
    double share = 1, fork_ns = 0;
    double time_ns(double ns) const { return share * ns + 2 * fork_ns; }
};
// Equal tasks; a single task leaves the second thread idle, and is not begun by two.
inline Sharing sharing_of(double tasks, double fork_ns) {
    return tasks > 1 ? Sharing{2 * std::ceil(tasks / 2) / tasks, fork_ns} : Sharing{2, 0};
}

// Multiply-adds that a core computes while it reads an element of 4 bytes: a call that reads much and computes little counts
// for its reads.
constexpr double multiply_adds_of_a_read = 8;
// Multiply-adds of a call from which two threads share it.
constexpr double work_of_two_threads = 2 * ThreadTeam::least_work_of_a_thread;

// A variant for the part of a call that fills its tiles, and one for the rest.
struct SharedCall {
    PredictedVariant first, last;
    double ns() const { return first.ns + last.ns; }
};

// The quickest pair of variants. rest_of(v): how much fills no tile of v, 0 where v shares no call; first_ns(v, rest): the time
// of v without the rest; last(rest): the quickest variant of the rest.
template<typename Rest, typename FirstTime, typename Last>
SharedCall quickest_of_two(std::span<const Runnable> list, const Rest &rest_of, const FirstTime &first_ns, const Last &last) {
    std::array<std::pair<std::int64_t, PredictedVariant>, 8> rests;  // tiles come in a few sizes
    std::size_t known = 0;
    SharedCall best;
    for (const Runnable &v : list) {
        const std::int64_t rest = rest_of(v);
        if (rest == 0) continue;
        const auto end = rests.begin() + known;
        const auto found = std::find_if(rests.begin(), end, [&](const auto &r) { return r.first == rest; });
        const PredictedVariant of_rest = found != end ? found->second : last(rest);
        if (found == end && known < rests.size()) rests[known++] = {rest, of_rest};
        if (!of_rest.variant || of_rest.variant == &v) continue;
        const SharedCall shared{{&v, first_ns(v, rest)}, of_rest};
        if (!best.first.variant || shared.ns() < best.ns()) best = shared;
    }
    return best;
}

}  // namespace attune
