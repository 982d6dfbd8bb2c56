// SPDX-License-Identifier: MIT
// The caller's floating-point state: it changes no bit, is restored, and raises no trap. docs/conventions.md row 51.
#include "runtime/src/execution/thread_team.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/float_control.h"
#include "tests/support/op_calls.h"
#include <atomic>
#include <cfenv>
#include <thread>

using namespace attune_test;

namespace {

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
        for (const FloatState &state : float_states)
            for (attune::Context *context : {&one, &three}) {
                Outputs got;
                bool ok = false;
                std::array<unsigned long, 2> before, after;
                {
                    const CallersFloatState of_the_caller(state);
                    before = float_registers();
                    ok = call.run(*context, got).ok();
                    after = float_registers();
                }
                INFO(state.name << ", " << context->threads() << " threads");
                CHECK(ok);
                CHECK(after == before);
                CHECK(same_bytes(got, expected));
            }
    }
}

TEST_CASE("floating-point state: a Context is made and slopes are computed in any state of the caller", "[runtime]") {
    const std::vector<float> expected = attune::alibi_slopes(24);
    for (const FloatState &state : float_states) {
        INFO(state.name);
        std::vector<float> slopes;
        int threads = 0;
        {
            const CallersFloatState of_the_caller(state);
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
        if (seat != 0 && !has_default_control()) wrong++;
        for (int n = 0; n < 2000 && present < 3; n++) std::this_thread::yield();
    };
    {
        const CallersFloatState of_the_caller({"flush to zero, upward", default_control | flush_to_zero, FE_UPWARD});
        attune::ThreadTeam::run(64, look);
    }
    CHECK(wrong == 0);
}
