// SPDX-License-Identifier: MIT
// Calls while a process ends. Each case is a process, which must exit with 0; CTest ends a process that hangs.
#include "tests/support/op_calls.h"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string_view>
#include <thread>
#include <unistd.h>

using namespace attune_test;

namespace {
// Work for several threads. Objects that calls at exit use are never destroyed, since the tests are about the library's own.
struct Work {
    OpCall call;
    std::vector<char> expected;
    bool computes() const {
        attune::Context context({.threads = 2});
        Outputs outputs;
        return call.run(context, outputs).ok() && outputs.bytes() == expected;
    }
};
const Work *work = nullptr;
std::atomic<int> calls{0};

void wait_for(const std::atomic<int> &count, int least) {
    while (count < least) std::this_thread::yield();
}

// An object whose destructor lasts, or calls.
struct AtExit {
    enum { nothing, waits, calls_twice } what = nothing;
    ~AtExit() {
        if (what == waits) std::this_thread::sleep_for(std::chrono::milliseconds(200));
        if (what != calls_twice) return;
        for (int n = 0; n < 2; n++)
            if (!work->computes()) _exit(2);
    }
} at_exit;

// Starts a thread that calls until the process ends.
void keep_calling() {
    std::thread([] {
        for (;; calls++)
            if (!work->computes()) _exit(3);
    }).detach();
    wait_for(calls, 3);
}

// A call that never ends, since its allocator blocks: in a helper, or in the calling thread.
std::atomic<int> waiting{0};
thread_local bool is_caller = false;
template<bool in_helper> void *allocate_or_stop(void *, std::size_t bytes, std::size_t alignment) {
    if (is_caller != in_helper)
        for (waiting++;;) pause();
    return ::operator new(bytes, std::align_val_t(alignment), std::nothrow);
}
template<bool in_helper> void call_for_ever() {
    std::thread([] {
        is_caller = true;
        attune::ContextOptions options{.threads = 2, .scratch_bytes_per_thread = 0};
        options.allocator.allocate = allocate_or_stop<in_helper>;
        options.allocator.release = [](void *, void *block, std::size_t) { ::operator delete(block, std::align_val_t(128)); };
        auto *context = new attune::Context(options);
        for (;;) {
            Outputs outputs;
            (void)work->call.run(*context, outputs);
        }
    }).detach();
    wait_for(waiting, 1);
}
}  // namespace

int main(int, char **argv) {
    make_inputs();
    auto *made = new Work{op_calls({.b = 4, .q = 150, .k = 300})[0], {}};
    work = made;
    {
        attune::Context context({.threads = 1});
        Outputs outputs;
        if (!made->call.run(context, outputs).ok()) return 1;
        made->expected = outputs.bytes();
    }
    const std::string_view which = argv[1] ? argv[1] : "";
    const bool helpers = attune::default_threads().processors > 1;
    if (which == "detached_thread") {
        at_exit.what = AtExit::waits;
        keep_calling();
    } else if (which == "static_destructor") {
        at_exit.what = AtExit::calls_twice;
        if (!work->computes()) return 1;
    } else if (which == "atexit_handler") {
        if (!work->computes()) return 1;
        std::atexit([] {
            if (!work->computes()) _exit(4);
        });
    } else if (which == "helper_in_a_call" && helpers) {
        call_for_ever<true>();
    } else if (which == "caller_in_a_call") {
        call_for_ever<false>();
        std::atexit([] {
            if (!work->computes()) _exit(5);
        });
    } else if (which != "helper_in_a_call") {
        std::printf("no such case\n");
        return 1;
    }
    std::exit(0);
}
