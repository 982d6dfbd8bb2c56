// SPDX-License-Identifier: MIT
// The table of an attention, whose name is ATTUNE_USER_NAME.
#include "user_module.h"
#include <new>

using namespace attune;

extern "C" __attribute__((visibility("default"))) const attune_python::UserModule *attune_user_module() {
    static const attune_python::UserModule table = {
        ATTUNE_VERSION_STRING,
        attune_python::user_module_sizes(),
        detail::find_attention("user_" ATTUNE_USER_NAME),
        [](const ContextOptions &options) { return new (std::nothrow) Context(options); },
        [](Context *context) { delete context; },
        [](const Context &context) -> const Status & { return context.status(); },
        [](const Context &context) -> const std::string & { return context.last_variant(); },
        &detail::run_user_attention,
        &detail::run_user_attention_backward,
        &detail::run_user_attention_over_ranks,
        &detail::run_user_attention_backward_over_ranks,
    };
    return &table;
}
