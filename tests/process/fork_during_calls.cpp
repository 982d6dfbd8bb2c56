// SPDX-License-Identifier: MIT
// A child forked while other threads are inside calls: its own first call, in a new Context, must end and compute the same.
// Meanwhile variants are registered, so that the others list them again and again.
#include "tests/support/op_calls.h"
#include <atomic>
#include <attune/detail/registration.h>
#include <cstdio>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace attune_test;

namespace {
bool computes(const OpCall &call, const std::vector<char> &expected) {
    attune::Context context({.threads = 2});
    Outputs outputs;
    return call.run(context, outputs).ok() && outputs.bytes() == expected;
}
}  // namespace

int main() {
    make_inputs();
    const OpCall call = op_calls({.q = 60, .k = 200})[0];
    std::vector<char> expected;
    {
        attune::Context context({.threads = 1});
        Outputs outputs;
        if (!call.run(context, outputs).ok()) return 1;
        expected = outputs.bytes();
    }
    std::atomic<bool> over{false};
    std::atomic<int> wrong{0}, registrations{0};  // wrong results; registrations left
    std::vector<std::thread> threads;
    for (int n = 0; n < 3; n++)
        threads.emplace_back([&, n] {
            while (!over) {
                if (n == 0 && registrations > 0) registrations--, attune::detail::VariantRegistration{{}};
                wrong += !computes(call, expected);
            }
        });
    int hung = 0, failed = 0;
    for (int n = 0; n < 150 && hung < 3; n++) {
        registrations = 8;
        std::this_thread::yield();
        const pid_t child = fork();
        if (child == 0) {
            alarm(20);  // ends a child that waits for ever
            const bool right = computes(call, expected);
            // A grandchild must work, too.
            const pid_t next = n % 10 ? -1 : fork();
            if (next == 0) _exit(computes(call, expected) ? 0 : 1);
            int status = 0;
            if (next > 0) waitpid(next, &status, 0);
            _exit(right && status == 0 ? 0 : 1);
        }
        int status = 0;
        waitpid(child, &status, 0);
        hung += WIFSIGNALED(status) != 0;
        failed += WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    over = true;
    for (std::thread &t : threads) t.join();
    std::printf("%d children hung, %d failed, %d calls of the parent were wrong\n", hung, failed, wrong.load());
    return hung || failed || wrong;
}
