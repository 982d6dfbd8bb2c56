// SPDX-License-Identifier: MIT
// Faults of the machine around calls: threads that cannot start, signals in the middle of a call, little address space, more
// threads than cores, and small stacks. Every op computes the bits of an undisturbed call, or says out_of_memory.
#include "tests/support/op_calls.h"
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fstream>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

namespace {
std::atomic<int> threads_left{1 << 30}, threads_refused{0};
}
// In place of that of glibc, which the C++ runtime calls: threads beyond a number cannot start.
extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*run)(void *), void *with) {
    if (threads_left-- <= 0) return threads_refused++, EAGAIN;
    using Create = int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    static const Create create = reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
    return create(thread, how, run, with);
}

namespace {
using namespace attune_test;

int failures = 0;
void expect(bool right, const std::string &name, const std::string &what) {
    if (right) return;
    std::printf("%s: %s\n", name.c_str(), what.c_str());
    failures++;
}

struct Expected {
    OpCall call;
    std::vector<char> bytes;
};
// Calls with one thread, undisturbed.
std::vector<Expected> expected_of_all(const std::vector<OpCall> &calls = op_calls({})) {
    std::vector<Expected> all;
    for (const OpCall &call : calls) {
        attune::Context one({.threads = 1});
        Outputs outputs;
        const attune::Status status = call.run(one, outputs);
        expect(status.ok(), call.name, "undisturbed: " + status.message());
        all.push_back({call, outputs.bytes()});
    }
    return all;
}
void check_all(const std::vector<Expected> &all, int threads, const std::string &how) {
    attune::Context context({.threads = threads});
    expect(context.status().ok(), how, context.status().message());
    for (const Expected &e : all) {
        Outputs outputs;
        const attune::Status status = e.call.run(context, outputs);
        expect(status.ok(), e.call.name, how + ": " + status.message());
        expect(outputs.bytes() == e.bytes, e.call.name, how + ": other bits");
    }
}

// The first thread, or a later one, cannot start.
void threads_that_cannot_start() {
    const auto all = expected_of_all();
    for (int most : {0, 1}) {
        threads_left = most;
        check_all(all, 8, std::to_string(most) + " threads can start");
    }
    threads_left = 1 << 30;
    check_all(all, 8, "threads can start again");
    // A machine of one core asks for none.
    std::printf("%d threads were refused\n", threads_refused.load());
    expect(threads_refused > 0 || sysconf(_SC_NPROCESSORS_ONLN) == 1, "threads", "none was refused");
}

// A timer interrupts system calls in all threads: its handler does not restart them.
std::atomic<int> signals{0};
void signals_in_calls() {
    const auto all = expected_of_all();
    struct sigaction action = {};
    action.sa_handler = [](int) { signals++; };
    sigaction(SIGALRM, &action, nullptr);
    const itimerval often = {{0, 200}, {0, 200}}, never = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    for (int times = 0; times < 20 && (times < 3 || signals < 50); times++) check_all(all, 4, "signals");
    setitimer(ITIMER_REAL, &never, nullptr);
    std::printf("%d signals\n", signals.load());
    expect(signals > 10, "signals", "few came");
}

// The address space that is left shrinks from call to call, down to none.
void little_address_space() {
    const auto all = expected_of_all();
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t used = rlim_t(pages) * rlim_t(sysconf(_SC_PAGESIZE));
    rlimit before{};
    getrlimit(RLIMIT_AS, &before);
    int refused = 0;
    for (rlim_t left : {rlim_t(64) << 20, rlim_t(1) << 20, rlim_t(0)}) {
        for (const Expected &e : all) {
            attune::Status status;
            bool same = true, no_memory_for_the_test = false;
            {
                attune::Context context({.threads = 4, .scratch_bytes_per_thread = 0});
                Outputs outputs;
                const rlimit limit = {used + left, before.rlim_max};
                setrlimit(RLIMIT_AS, &limit);
                try {
                    status = e.call.run(context, outputs);
                    same = !status.ok() || outputs.bytes() == e.bytes;
                } catch (const std::bad_alloc &) {
                    no_memory_for_the_test = true;  // outputs of the test allocate, too; the library does not throw
                }
                setrlimit(RLIMIT_AS, &before);
            }
            refused += no_memory_for_the_test || !status.ok();
            expect(status.ok() || status.code() == attune::StatusCode::out_of_memory, e.call.name, status.message());
            expect(same, e.call.name, "other bits with little address space");
        }
        check_all(all, 4, "address space again");
    }
    std::printf("%d calls without memory\n", refused);
}

// Eight threads on one core.
void one_core() {
    const auto all = expected_of_all();
    cpu_set_t every, one;
    sched_getaffinity(0, sizeof every, &every);
    CPU_ZERO(&one);
    for (int n = 0; n < CPU_SETSIZE && CPU_COUNT(&one) == 0; n++)
        if (CPU_ISSET(n, &every)) CPU_SET(n, &one);
    sched_setaffinity(0, sizeof one, &one);
    check_all(all, 8, "eight threads on one core");
    sched_setaffinity(0, sizeof every, &every);
    check_all(all, 8, "all cores again");
}

// Calls of a thread whose stack is small, and helpers whose stacks are as small: RLIMIT_STACK at the start of the process is
// the size of the stacks of all its threads.
constexpr std::size_t small_stack = std::size_t(256) << 10;
void stacks() {
    std::vector<Expected> all = expected_of_all(op_calls({}));
    const auto add = [&](const std::vector<OpCall> &calls) {
        for (Expected &e : expected_of_all(calls)) all.push_back(std::move(e));
    };
    // Head sizes with kernels of their own, as large as the inputs of the calls allow.
    for (const std::int64_t head_dim : {64, 96}) add(op_calls({.h = 2, .d = head_dim}));
    const OpSizes wide{.h = 1, .d = 128};
    add({attention_call<float>("sdpa f32, 128", wide, {}),
         attention_call<double>("sdpa f64, 128", wide, {}),
         attention_call<attune::bfloat16>("sdpa bf16, 128", wide, {}),
         attention_call<attune::float16>("sdpa f16, 128", wide, {}),
         {"gradients of sdpa, 128",
          [=](attune::Context &context, Outputs &outputs) { return attention_and_gradients(context, outputs, wide, {}); }}});
    pthread_attr_t how;
    pthread_attr_init(&how);
    pthread_attr_setstacksize(&how, small_stack);
    pthread_t thread;
    const auto run = [](void *with) -> void * {
        check_all(*static_cast<const std::vector<Expected> *>(with), 4, "a small stack");
        return nullptr;
    };
    if (pthread_create(&thread, &how, run, const_cast<std::vector<Expected> *>(&all)) != 0)
        return expect(false, "stacks", "no thread of a small stack");
    pthread_join(thread, nullptr);
    pthread_getattr_default_np(&how);
    std::size_t of_helpers = 0;
    pthread_attr_getstacksize(&how, &of_helpers);
    std::printf("stacks of helpers: %zu KiB\n", of_helpers >> 10);
    expect(of_helpers <= small_stack, "stacks", "helpers have larger ones");
}
int with_small_stacks(char **argv) {
    if (std::getenv("ATTUNE_TEST_SMALL_STACKS")) return stacks(), failures;
    setenv("ATTUNE_TEST_SMALL_STACKS", "1", 1);
    rlimit limit{};
    getrlimit(RLIMIT_STACK, &limit);
    limit.rlim_cur = small_stack;
    setrlimit(RLIMIT_STACK, &limit);
    execv("/proc/self/exe", argv);
    return 1;
}

}  // namespace

int main(int argc, char **argv) {
    const std::string which = argc == 2 ? argv[1] : "";
    make_inputs();
    if (which == "threads")
        threads_that_cannot_start();
    else if (which == "signals")
        signals_in_calls();
    else if (which == "address_space")
        little_address_space();
    else if (which == "one_core")
        one_core();
    else if (which == "stacks")
        return with_small_stacks(argv) != 0;
    else
        return std::printf("usage: attune_faults threads|signals|address_space|one_core|stacks\n"), 2;
    return failures != 0;
}
