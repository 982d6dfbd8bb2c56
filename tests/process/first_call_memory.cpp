// SPDX-License-Identifier: MIT
// Lack of memory in the first call of a process: each request in turn, of operator new and of malloc, is refused in a child
// that has never called before. The call returns a Status, and the next one computes the right result.
#include "tests/support/op_calls.h"
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

namespace {
// Number of requests, counted while `refused` is not negative, and number of the refused one.
std::atomic<int> requests{0}, refused{-1};
std::atomic<bool> all_after{false};  // whether later ones are refused, too
bool refuse() {
    const int at = refused.load(std::memory_order_relaxed);
    if (at < 0) return false;
    const int n = requests++;
    if (n != at && !(all_after && n > at)) return false;
    errno = ENOMEM;
    return true;
}
}  // namespace

// Names of glibc's own functions, which operator new calls.
extern "C" {
void *__libc_malloc(std::size_t);
void *__libc_calloc(std::size_t, std::size_t);
void *__libc_realloc(void *, std::size_t);
void *__libc_memalign(std::size_t, std::size_t);
void *malloc(std::size_t bytes) { return refuse() ? nullptr : __libc_malloc(bytes); }
void *calloc(std::size_t count, std::size_t bytes) { return refuse() ? nullptr : __libc_calloc(count, bytes); }
void *realloc(void *block, std::size_t bytes) { return refuse() ? nullptr : __libc_realloc(block, bytes); }
void *memalign(std::size_t alignment, std::size_t bytes) { return refuse() ? nullptr : __libc_memalign(alignment, bytes); }
void *aligned_alloc(std::size_t alignment, std::size_t bytes) { return memalign(alignment, bytes); }
int posix_memalign(void **block, std::size_t alignment, std::size_t bytes) {
    void *const got = memalign(alignment, bytes);
    if (!got) return ENOMEM;
    *block = got;
    return 0;
}
}

namespace {
using namespace attune_test;

enum Found { fine, nothing_refused, throws, wrong_status, next_call_fails, next_call_differs };
const char *text_of(int found) {
    if (found == throws) return "an exception";
    if (found == wrong_status) return "another status than out_of_memory";
    return found == next_call_fails ? "the next call fails" : "the next call computes something else";
}

// Makes the first call, in a child.
Found first_call(const OpCall &call, const std::vector<char> &expected, int n, bool later_ones) {
    Outputs unused;
    requests = 0, all_after = later_ones, refused = n;
    attune::StatusCode code = attune::StatusCode::internal;
    bool thrown_by_test = false;  // its outputs allocate, too; functions of the library cannot throw
    try {
        const attune::Context context({.threads = 2});
        try {
            code = call.run(const_cast<attune::Context &>(context), unused).code();
        } catch (const std::bad_alloc &) {
            thrown_by_test = true;
        }
    } catch (...) {
        return refused = -1, throws;
    }
    refused = -1;
    const bool all_granted = requests <= n;
    if (!thrown_by_test && code != attune::StatusCode::ok && code != attune::StatusCode::out_of_memory) return wrong_status;
    attune::Context context({.threads = 2});
    Outputs outputs;
    if (!call.run(context, outputs).ok()) return next_call_fails;
    if (outputs.bytes() != expected) return next_call_differs;
    return all_granted ? nothing_refused : fine;
}

// Runs a child; returns how it ended, other than by exit, and sets its exit code.
template<typename Run> std::string in_child(const Run &run, int &code) {
    const pid_t child = fork();
    if (child < 0) return "fork failed";
    if (child == 0) {
        alarm(60);  // ends a child that waits for ever
        _exit(run());
    }
    int status = 0;
    waitpid(child, &status, 0);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return WIFSIGNALED(status) ? "signal " + std::to_string(WTERMSIG(status)) : "";
}

// Computes the bytes of the call with memory, in a child, since this process must not call.
bool expected_of(const OpCall &call, std::vector<char> &bytes) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    const pid_t child = fork();
    if (child == 0) {
        attune::Context context({.threads = 2});
        Outputs outputs;
        if (!call.run(context, outputs).ok()) _exit(1);
        const std::vector<char> all = outputs.bytes();
        for (std::size_t at = 0; at < all.size();) {
            const ssize_t n = write(ends[1], all.data() + at, all.size() - at);
            if (n <= 0) _exit(1);
            at += std::size_t(n);
        }
        _exit(0);
    }
    close(ends[1]);
    char buffer[1 << 16];
    for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) bytes.insert(bytes.end(), buffer, buffer + n);
    close(ends[0]);
    int status = 1;
    waitpid(child, &status, 0);
    return status == 0;
}

// Checks a call with every request refused in turn; for calls after the first, whose first requests are the same, each of the
// first and then every so many.
int check(const OpCall &call, bool every_one, bool later_ones) {
    std::vector<char> expected;
    if (!expected_of(call, expected)) return std::printf("%s: fails with memory\n", call.name.c_str()), 1;
    int tried = 0, failed = 0, code = fine;
    for (int n = 0; code != nothing_refused && n < 1 << 20; n += every_one || n < 40 ? 1 : n / 10) {
        const std::string how = in_child([&] { return first_call(call, expected, n, later_ones); }, code);
        tried++;
        if (how.empty() && (code == fine || code == nothing_refused)) continue;
        if (failed++ < 5)
            std::printf("%s: request %d refused%s: %s\n", call.name.c_str(), n, later_ones ? ", and all after it" : "",
                        how.empty() ? text_of(code) : how.c_str());
    }
    std::printf("%s%s: %d points, %d wrong\n", call.name.c_str(), later_ones ? ", and all after" : "", tried, failed);
    return failed;
}

}  // namespace

int main() {
    int failed = 0;
    make_inputs();
    const OpSizes sizes{.b = 2, .h = 2, .q = 40, .k = 110, .d = 24};
    const std::vector<OpCall> calls = op_calls(sizes);
    for (const OpCall &call : calls) failed += check(call, &call == &calls[0], false);
    for (const OpCall *call : {&calls[0], &calls[2]}) failed += check(*call, false, true);
    return failed ? 1 : 0;
}
