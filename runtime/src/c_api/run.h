// SPDX-License-Identifier: MIT
// The context of C, and the run of a call: its status is kept, and no exception leaves it.
#pragma once
#include "c_api/reader.h"
#include "c_api/texts.h"
#include <attune/context.h>
#include <exception>
#include <new>

struct attune_context {
    explicit attune_context(const attune::ContextOptions &options) : of_calls(options) {}

    attune_status answer(attune::Status);
    // A status in words that need no memory: at most 15 characters.
    attune_status answer_short(attune::StatusCode, const char *) noexcept;

    attune::Context of_calls;
    attune::Status refused;  // why its options could not be read: the answer to every call
    std::string message;     // of the last call
    // Texts of results, each until the next call of its kind.
    attune::c_api::Texts threads, plan, product_plan, missing, variant, target, forecast;
    attune::c_api::Lists lists;
};

namespace attune::c_api {

// Runs body(Reader &, Context &), which returns a Status.
template<typename Body> attune_status run(attune_context *context, const Body &body) noexcept {
    if (!context) return ATTUNE_INVALID_ARGUMENT;
    try {
        if (!context->refused.ok()) return context->answer(context->refused);
        Reader reader;
        Status status = body(reader, context->of_calls);
        reader.finish();
        return context->answer(std::move(status));
    } catch (const std::bad_alloc &) {
        return context->answer_short(StatusCode::out_of_memory, "out of memory");
    } catch (...) {
        return context->answer_short(StatusCode::internal, "exception");
    }
}

}  // namespace attune::c_api
