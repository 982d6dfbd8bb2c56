// SPDX-License-Identifier: MIT
// Ranks that are threads, and judgements of their results.
#pragma once
#include "attune/attune.h"
#include "attune/thread_communicator.h"
#include "tests/context_parallel/parallel_case.h"
#include <functional>
#include <thread>

namespace attune_test {

// Runs f(communicator, context) on each rank; statuses by rank. Callbacks may be changed by `change`.
using RankFunction = std::function<attune::Status(attune::Communicator, attune::Context &)>;
inline std::vector<attune::Status> on_ranks(int ranks, const RankFunction &f, double time_limit = 20) {
    attune::ThreadGroup group(ranks);
    std::vector<attune::Status> statuses(static_cast<std::size_t>(ranks));
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++)
        threads.emplace_back([&, rank] {
            attune::Context context({.threads = 1});
            statuses[std::size_t(rank)] = f(group.communicator(rank, time_limit), context);
        });
    for (std::thread &t : threads) t.join();
    return statuses;
}

// The results of a case on so many ranks; an error as text.
template<typename T>
std::string results_on(int ranks, const ParallelCase &c, ParallelResults<T> &all, const ParallelCalls &calls = {}) {
    const ParallelArrays<T> arrays(c);
    attune::ParallelPlan plan;
    if (const attune::Status s = plan_of(c, ranks, plan); !s.ok()) return s.message();
    std::vector<ParallelResults<T>> of_rank(static_cast<std::size_t>(ranks), ParallelResults<T>{c});
    const auto statuses = on_ranks(ranks, [&](attune::Communicator communicator, attune::Context &context) {
        return run_rank(context, communicator, c, plan, arrays, of_rank[std::size_t(communicator.rank)], nullptr, nullptr,
                        calls);
    });
    for (int rank = 0; rank < ranks; rank++)
        if (!statuses[std::size_t(rank)].ok())
            return "rank " + std::to_string(rank) + ": " + statuses[std::size_t(rank)].message();
    all = of_rank[0];
    // Rows of other ranks.
    for (int rank = 1; rank < ranks; rank++) {
        const ParallelResults<T> &own = of_rank[std::size_t(rank)];
        if (c.scheme == Scheme::decode) {
            if (const std::string d = difference(c, plan, rank, all, own); !d.empty()) return d + " differs between ranks";
            continue;
        }
        const auto take = [&](const auto &from, auto &to, Index outer, Index width) {
            using Element = typename std::decay_t<decltype(from)>::value_type;
            if (to.empty()) return;
            RankRows<Element> rows(plan, rank, outer, width);
            rows.from(from), rows.to(to);
        };
        take(own.out, all.out, c.batch * c.query_heads, c.value_dim), take(own.lse, all.lse, c.batch * c.query_heads, 1);
        take(own.query, all.query, c.batch * c.query_heads, c.head_dim);
        take(own.key, all.key, c.batch * c.key_heads, c.head_dim);
        take(own.value, all.value, c.batch * c.key_heads, c.value_dim);
        take(own.bias, all.bias, c.query_heads, c.positions);
    }
    return "";
}

// The results of `ranks` ranks against those of one: empty, or what differs.
template<typename T> std::string differs_from_one_rank(int ranks, const ParallelCase &c) {
    ParallelResults<T> one(c), several(c);
    if (const std::string error = results_on(1, c, one); !error.empty()) return "one rank: " + error;
    if (const std::string error = results_on(ranks, c, several); !error.empty()) return error;
    attune::ParallelPlan plan;
    if (!plan_of(c, 1, plan).ok()) return "no plan";
    return difference(c, plan, 0, one, several);
}

}  // namespace attune_test
