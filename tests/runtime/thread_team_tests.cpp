// SPDX-License-Identifier: MIT
// Threads that help calls (runtime/src/execution/thread_team.h).
#include "runtime/src/execution/processors.h"
#include "runtime/src/execution/thread_team.h"
#include "tests/support/catch.h"
#include "tests/support/sdpa_case.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sys/wait.h>
#include <thread>
#include <vector>

using namespace attune_test;
using attune::ThreadTeam;

namespace {
// Takes tasks until none is left; counts how often each was taken, and each seat.
struct Tasks {
    std::atomic<int> next{0};
    std::vector<int> taken;
    std::vector<std::atomic<int>> seated;
    Tasks(int count, int seats) : taken(std::size_t(count)), seated(std::size_t(seats)) {}
    void work(int seat) {
        seated[std::size_t(seat)]++;
        for (int n; (n = next++) < int(taken.size());) taken[std::size_t(n)]++;
    }
    bool each_once() const {
        for (const std::atomic<int> &s : seated)
            if (s > 1) return false;
        return seated[0] == 1 && taken == std::vector<int>(taken.size(), 1);
    }
};

bool run_tasks(int count, int seats) {
    Tasks tasks(count, seats);
    ThreadTeam::run(seats, [&](int seat) { tasks.work(seat); });
    return tasks.each_once();
}
}  // namespace

TEST_CASE("thread team: every task and every seat is taken once, the first by the caller", "[runtime]") {
    for (const int seats : {1, 2, 3, 17, 1000})
        for (const int count : {0, 1, 7, 3000}) CHECK(run_tasks(count, seats));
    const auto caller = std::this_thread::get_id();
    ThreadTeam::run(3, [&](int seat) {
        if ((seat == 0) != (std::this_thread::get_id() == caller)) std::abort();
    });
}

TEST_CASE("thread team: little work is worth helpers that are awake, and many such calls are worth waking one", "[runtime]") {
    const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
    constexpr double little = 3e5, much = 2e6;
    sleep();
    CHECK(ThreadTeam::worth_helpers(much));
    CHECK_FALSE(ThreadTeam::worth_helpers(little));
    int calls = 1;  // fewer than 4 are too little work; more may have been too far apart
    while (calls < 1000 && !ThreadTeam::worth_helpers(little)) calls++;
    CHECK(calls >= 3);
    CHECK(calls < 1000);
    if (attune::usable_cores() < 2) return;
    run_tasks(100000, 2);
    int awake = 0;  // a helper looks for work after its job; it may lose its core meanwhile
    for (int n = 0; n < 1000 && !awake; n++) sleep(), run_tasks(100000, 2), awake = ThreadTeam::worth_helpers(little);
    CHECK(awake == 1);
}

TEST_CASE("thread team: helpers come where there is a core for them, awake or asleep", "[runtime]") {
    const int expected = std::min(2, attune::usable_cores());
    for (const int pause_ms : {0, 0, 20}) {
        std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
        std::atomic<int> present{0}, signals_wrong{0};
        ThreadTeam::run(2, [&](int seat) {
            sigset_t blocked;
            pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
            signals_wrong += (sigismember(&blocked, SIGINT) == 1) != (seat != 0);  // signals go to the program's own threads
            signals_wrong += sigismember(&blocked, SIGSEGV) == 1;  // but a thread's fault goes to the program's handler
            present++;
            while (present < expected) std::this_thread::yield();  // for ever, if a helper is missing
        });
        CHECK(present == expected);
        CHECK(signals_wrong == 0);
    }
}

TEST_CASE("thread team: calls of several threads at once, and of one another", "[runtime]") {
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int n = 0; n < 6; n++)
        threads.emplace_back([&, n] {
            for (int call = 0; call < 500; call++) wrong += !run_tasks(call % 40, 1 + (n + call) % 5);
            ThreadTeam::run(3, [&](int) { wrong += !run_tasks(50, 3); });
        });
    for (std::thread &t : threads) t.join();
    CHECK(wrong == 0);
}

TEST_CASE("thread team: a process that was forked has helpers of its own, and ends", "[runtime]") {
    const SdpaCase c{.queries = 70, .keys = 200};
    attune::Context context({.threads = 2});
    SdpaArrays<float> expected(c);
    REQUIRE(expected.run(context).ok());
    const auto out = expected.out.values();
    std::cout.flush(), std::fflush(nullptr);  // a child would write buffered text, too
    const pid_t child = fork();
    if (child == 0) {
        SdpaArrays<float> a(c);
        const bool same = a.run(context).ok() && same_bits(a.out.values(), out);
        std::exit(same && run_tasks(100, 2) ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
    CHECK(run_tasks(100, 2));
}
