// SPDX-License-Identifier: MIT
#include "c_api/run.h"
#include "c_api/structs.h"

using namespace attune;
using namespace attune::c_api;

attune_status attune_context::answer(Status status) {
    const auto code = static_cast<attune_status>(status.code());
    message = status.message();
    return code;
}

attune_status attune_context::answer_short(StatusCode code, const char *words) noexcept {
    message.assign(words);
    return static_cast<attune_status>(code);
}

attune_status attune_context_create(const attune_context_options *options, attune_context **context) {
    if (!context) return ATTUNE_INVALID_ARGUMENT;
    *context = nullptr;
    try {
        Reader reader;
        const ContextOptions given = read(reader, options, {"options"});
        const bool is_read = reader.ok();
        *context = new attune_context(is_read ? given : ContextOptions{});
        if (!is_read) (*context)->refused = reader.status();
        return (*context)->answer(is_read ? (*context)->of_calls.status() : (*context)->refused);
    } catch (...) {
        delete *context;
        *context = nullptr;
        return ATTUNE_OUT_OF_MEMORY;
    }
}

void attune_context_destroy(attune_context *context) { delete context; }

const char *attune_last_message(const attune_context *context) {
    return context ? context->message.c_str() : "context: must be given";
}

int32_t attune_context_threads(const attune_context *context) { return context ? context->of_calls.threads() : 0; }

const char *attune_last_variant(const attune_context *context) {
    return context ? context->of_calls.last_variant().c_str() : "";
}

size_t attune_device_scratch_bytes(const attune_context *context) {
    return context ? context->of_calls.device_scratch_bytes() : 0;
}

size_t attune_scratch_bytes(const attune_context *context) { return context ? context->of_calls.scratch_bytes() : 0; }

attune_status attune_release_scratch(attune_context *context) {
    return run(context, [](Reader &, Context &of_calls) -> Status {
        of_calls.release_scratch();
        return of_calls.status();
    });
}

attune_status attune_default_threads(attune_context *context, attune_thread_defaults *threads) {
    return run(context, [&](Reader &reader, Context &) -> Status {
        context->threads.clear();
        write(reader, default_threads(), context->threads, threads, {"threads"});
        return reader.status();
    });
}
