// SPDX-License-Identifier: MIT
// The frame of a call, the same for every op: choice of the variant, record of the call, errors.
#pragma once
#include "dispatch/cost.h"
#include "dispatch/variant_table.h"
#include "execution/context_state.h"
#include "execution/float_state.h"
#include "tensors/views.h"
#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace attune {

// A schedule and class that suits a call of an op with one or two schedules.
struct Candidate {
    Schedule schedule;
    std::string_view shape_class, reason;
};

// The variant that a call takes. A choice may depend on types, sizes of one batch entry (of its keys: those within its lengths)
// and which options are given; never on the batch, threads or data, so that a slice of a batch computes the same bits alone.
struct Choice {
    const VariantRecord *variant = nullptr;
    std::string_view reason = {};
    bool forced = false;
    // The variant of the last queries, or columns of a product, that fill no tile of `variant`, and which of the two.
    const VariantRecord *of_last = nullptr;
    std::string_view last = {};
    // Where dispatch predicted times: of `variant` (with of_last), and the quickest other variant.
    double predicted_ns = 0, next_ns = 0;
    const VariantRecord *next = nullptr;

    // The choice of the quickest variant, with the next one; and that of a pair, where its time is less.
    static Choice of(const PredictedVariant &quickest, const PredictedVariant &next);
    // `part` that the last variant computes: "queries" or "columns". Whether the pair is taken.
    bool share(const SharedCall &, std::string_view part);
};

// A variant that must run: the one of the call's options, else ATTUNE_FORCE_VARIANT if it names one of this op (and, for
// attention, is of kind "weights" exactly where `weights`). An empty name means none.
struct Forced {
    std::string_view name = {}, by = {};
};
Forced forced_variant(const Context::State &, std::string_view of_the_call, const Op &op, bool weights = false);

// The variant that is forced, or an error that says why it cannot compute the call.
Status use_forced(const VariantNeeds &, const Forced &, Choice &);
// The error of a call for which no variant is linked in that this CPU runs.
Status no_variant(const VariantNeeds &);
// The forced variant; else that of the first of `candidates`, the best first, for which there is one.
Status choose_variant(const VariantNeeds &, std::span<const Candidate> candidates, const Forced &, Choice &);

// Threads that this many multiply-adds are worth now, at most `threads`, and at any time.
int worthwhile_threads(double multiply_adds, int threads) noexcept;
int worthwhile_threads_at_most(double multiply_adds, int threads) noexcept;

using CallStart = std::chrono::steady_clock::time_point;
inline CallStart start_of_call() { return std::chrono::steady_clock::now(); }

// Records what ran (nothing, if choice.variant is null: then reason says why), and writes ATTUNE_VERBOSE's line.
// sizes() gives the text of the sizes, such as "b 1 h 8".
void write_call_line(const Choice &, std::string_view op, const std::string &sizes, CallStart);
template<typename Sizes>
void record_call(Context::State &context, const Choice &choice, std::string_view op, CallStart start, const Sizes &sizes) {
    if (context.device_scratch.rehearses) return;
    context.ran(choice.variant ? choice.variant->name : std::string_view());
    if (context.verbose) write_call_line(choice, op, sizes(), start);
}

// Whether a tensor of an argument is on a device.
template<typename Argument> bool is_on_device(Argument argument) {
    bool any = false;
    each_view(argument, [&](const auto &v) { any = any || (v.given() && v.place == Place::device); });
    return any;
}
template<typename Argument> bool is_on_device(const std::vector<Argument> &arguments) {
    return std::any_of(arguments.begin(), arguments.end(), [](const Argument &a) { return is_on_device(a); });
}

// A call with tensors on a device and a workspace: the body runs without queuing a kernel, and then in earnest if the workspace
// suffices.
template<typename Run> Status rehearsed(Context::State &state, const Run &run) {
    state.device_scratch.rehearses = true;
    Status status = run();
    // false: the CPU has computed instead.
    const bool is_due = std::exchange(state.device_scratch.rehearses, false);
    if (!status.ok() || !is_due) return status;
    const std::size_t given = state.device.workspace_bytes, taken = state.device_scratch.most;
    if (taken > given)
        return {StatusCode::out_of_memory,
                "device.workspace: has " + std::to_string(given) + " bytes, this call takes " + std::to_string(taken)};
    return run();
}

// The body of a public function, which gets the arguments that hold views, normalised. Nothing is thrown out of it; all that it
// computes, checks and dispatch included, is computed in the default floating-point state, which helpers have from their
// beginning (thread_team.cpp); and the last variant stays that of the last successful call, whatever parts of one that fails
// have run.
template<typename Body, typename... Arguments>
Status answer(const Context &context, const Body &body, const Arguments &...arguments) noexcept {
    const DefaultFloatState of_this_call;
    if (!context.status().ok()) return context.status();
    Context::State &state = state_of(context);
    const std::string_view last = state.last_name;
    const auto run = [&]() -> Status {
        try {
            const auto compute = [&] { return body(state, normalised(arguments)...); };
            if (state.device.workspace && (is_on_device(normalised(arguments)) || ...)) return rehearsed(state, compute);
            return compute();
        } catch (const std::bad_alloc &) {
            state.device_scratch.rehearses = false;
            return {StatusCode::out_of_memory, "out of memory"};  // short: must not allocate
        }
    };
    Status status = run();
    if (!status.ok() && state.last_name.data() != last.data()) state.ran(last);
    return status;
}

}  // namespace attune
