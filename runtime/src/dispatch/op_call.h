// SPDX-License-Identifier: MIT
// What every op does around its kernel: which variant runs, and what is recorded of the call.
#pragma once
#include "dispatch/ops.h"
#include "dispatch/variant_table.h"
#include "execution/context_state.h"
#include "execution/float_state.h"
#include "tensors/views.h"
#include <chrono>
#include <initializer_list>
#include <new>
#include <span>
#include <string>
#include <string_view>

namespace attune {

// What a call asks of a variant. Ops other than attention have one kind, "", and no head size.
struct VariantNeeds {
    Op op;
    DType dtype = DType::f32;
    std::string_view kind = {};
    std::int64_t head_dim = 0, value_dim = 0;
};

// A class of variants that suits a call. A choice may depend on types, sizes of one batch entry and which options are given;
// never on the batch, threads or data, so that a slice of a batch computes the same bits alone.
struct Candidate {
    // How far queries, or rows of split, must fill the tiles of a variant: all but for long_padding_percent_at_most percent of
    // the queries; the last tile by more than half; or, where there are two tiles, more than three quarters of them.
    // least_time: any, but of the classes whose tiles suit few keys (named after class short, and class long) the one is taken
    // whose tiles take least time for so many queries.
    enum class Fill { nearly, over_half, most_of_two, least_time };
    std::string_view schedule, shape_class, reason;
    std::int64_t fill_tiles_with = 0;  // how many there are; 0: it does not matter
    Fill fill = Fill::nearly;
    bool own_size = false;  // only variants of this head size, not those of any
};

constexpr std::size_t most_candidates = 24;  // of nearly all calls: one allocation, since small calls notice more

struct Choice {
    const VariantRecord *variant = nullptr;
    std::string_view reason = {};
    bool forced = false;
    // Of attention, where there is one: a variant that is better but for its last tile, and why.
    const VariantRecord *not_filled = nullptr;
    std::string_view why_better = {};
    // What computes those last queries, or columns of a product, that fill no tile of `variant`, and which of the two.
    const VariantRecord *of_last = nullptr;
    std::string_view last = {};
};

// A variant that must run: the one of the call's options, else ATTUNE_FORCE_VARIANT if it names one of this op (and, for
// attention, is of kind "weights" exactly where `weights`). An empty name means none.
struct Forced {
    std::string_view name = {}, by = {};
};
Forced forced_variant(const Context::State &, std::string_view of_the_call, const Op &op, bool weights = false);

// The forced one if it fits, or an error that says why not; else the first of `candidates`, the best first, that is met by a
// variant which runs here.
Status choose_variant(const VariantNeeds &, std::span<const Candidate> candidates, const Forced &, Choice &);

// What a core computes while it reads an element of 4 bytes: a call that reads much and computes little counts for what it
// reads.
constexpr double multiply_adds_of_a_read = 8;
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
    context.ran(choice.variant ? choice.variant->name : std::string_view());
    if (context.verbose) write_call_line(choice, op, sizes(), start);
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
            return body(state, normalised(arguments)...);
        } catch (const std::bad_alloc &) {
            return {StatusCode::out_of_memory, "out of memory"};  // short: must not allocate
        }
    };
    Status status = run();
    if (!status.ok() && state.last_name.data() != last.data()) state.ran(last);
    return status;
}

}  // namespace attune
