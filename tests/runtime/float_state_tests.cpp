// SPDX-License-Identifier: MIT
// The caller's floating-point state: it changes no bit, is restored, and raises no trap. docs/conventions.md row 51.
#include "runtime/src/execution/thread_team.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/op_calls.h"
#include <atomic>
#include <cfenv>
#include <immintrin.h>
#include <thread>

using namespace attune_test;

namespace {

constexpr unsigned flush_to_zero = 0x8000, denormals_are_zero = 0x40, all_traps_masked = 0x1f80, all_flags = 0x3f;

unsigned x87_state() {
    unsigned short control, status;
    asm volatile("fnstcw %0\n\tfnstsw %1" : "=m"(control), "=m"(status));
    return control | unsigned(status) << 16;
}

// Scope with a floating-point state of this thread. Arithmetic within must not raise exceptions that it traps.
class CallersState {
public:
    explicit CallersState(unsigned mxcsr, int rounding = FE_TONEAREST, int traps = 0) {
        std::fegetenv(&before_);
        std::fesetround(rounding);
        _mm_setcsr((_mm_getcsr() & ~(all_traps_masked | all_flags)) | mxcsr);
        if (traps) feenableexcept(traps);
    }
    ~CallersState() { std::fesetenv(&before_); }

private:
    std::fenv_t before_;
};

struct State {
    const char *name;
    unsigned mxcsr;
    int rounding = FE_TONEAREST, traps = 0;
};
const State states[] = {
    {"flush to zero", all_traps_masked | flush_to_zero},
    {"denormals are zero, upward", all_traps_masked | denormals_are_zero, FE_UPWARD},
    {"downward, some flags", all_traps_masked | 0x9, FE_DOWNWARD},
    {"toward zero, every trap", all_traps_masked, FE_TOWARDZERO, FE_ALL_EXCEPT},
    {"every trap and denormals' too, every flag", all_flags},
};

// A comparison whose operands Catch2 does not print: they are long.
bool same_bytes(const Outputs &a, const Outputs &b) { return a.bytes() == b.bytes(); }

}  // namespace

TEST_CASE("floating-point state: the caller's changes no bit of any function, traps nothing, and comes back", "[runtime]") {
    const OpSizes sizes{};
    attune::Context one({.threads = 1}), three({.threads = 3});
    for (const OpCall &call : op_calls(sizes)) {
        INFO(call.name);
        Outputs expected;
        const attune::Status status = call.run(one, expected);
        INFO(status.message());
        REQUIRE(status.ok());
        for (const State &state : states)
            for (attune::Context *context : {&one, &three}) {
                Outputs got;
                bool ok = false;
                unsigned mxcsr[2], x87[2];
                {
                    const CallersState of_the_caller(state.mxcsr, state.rounding, state.traps);
                    mxcsr[0] = _mm_getcsr(), x87[0] = x87_state();
                    ok = call.run(*context, got).ok();
                    mxcsr[1] = _mm_getcsr(), x87[1] = x87_state();
                }
                INFO(state.name << ", " << context->threads() << " threads");
                CHECK(ok);
                CHECK(mxcsr[1] == mxcsr[0]);
                CHECK(x87[1] == x87[0]);
                CHECK(same_bytes(got, expected));
            }
    }
}

TEST_CASE("floating-point state: a Context is made and slopes are computed in any state of the caller", "[runtime]") {
    const std::vector<float> expected = attune::alibi_slopes(24);
    for (const State &state : states) {
        INFO(state.name);
        std::vector<float> slopes;
        int threads = 0;
        {
            const CallersState of_the_caller(state.mxcsr, state.rounding, state.traps);
            slopes = attune::alibi_slopes(24);
            threads = attune::Context().threads();
        }
        CHECK(same_bits(slopes, expected));
        CHECK(threads == attune::default_threads().threads);
    }
}

TEST_CASE("floating-point state: the caller's exception flags are neither raised nor cleared by a call", "[runtime]") {
    attune::Context context({.threads = 1});
    make_inputs();  // this raises flags itself
    for (const int flags : {0, FE_INEXACT, FE_DIVBYZERO | FE_OVERFLOW}) {
        std::feclearexcept(FE_ALL_EXCEPT);
        std::feraiseexcept(flags);
        const int before = std::fetestexcept(FE_ALL_EXCEPT);
        Outputs outputs;
        const bool ok = attention_call<float>("", {}, scored_options({})).run(context, outputs).ok();
        const int after = std::fetestexcept(FE_ALL_EXCEPT);
        CHECK(ok);
        CHECK(after == before);
    }
    std::feclearexcept(FE_ALL_EXCEPT);
}

TEST_CASE("floating-point state: helpers do not begin with that of the thread that wakes them first", "[runtime]") {
    std::atomic<int> wrong{0}, present{0};
    const auto look = [&](int seat) {
        present++;
        if (seat != 0 && (_mm_getcsr() & ~all_flags) != all_traps_masked) wrong++;
        for (int n = 0; n < 2000 && present < 3; n++) std::this_thread::yield();
    };
    {
        const CallersState of_the_caller(all_traps_masked | flush_to_zero, FE_UPWARD);
        attune::ThreadTeam::run(64, look);
    }
    CHECK(wrong == 0);
}
