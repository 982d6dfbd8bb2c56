// SPDX-License-Identifier: MIT
#include "c_api/parallel_plan.h"
#include "c_api/user_captures.h"

using namespace attune;
using namespace attune::c_api;

attune_status attune_user_attention_over_ranks(attune_context *context, attune_collective function,
                                               const attune_communicator *communicator, const attune_parallel_plan *plan,
                                               const char *name, const attune_tensor *query, const attune_tensor *key,
                                               const attune_tensor *value, const attune_tensor *out,
                                               const attune_capture *captures, size_t captures_count,
                                               const attune_parallel_options *options) {
    return run(context, [&](Reader &reader, Context &of_calls) -> Status {
        const auto collective = reader.enumeration<detail::Collective>(function, names_of_collective, {"function"});
        const Communicator communicator_given = read(reader, communicator, {"communicator"});
        const ParallelPlan &plan_given = read(reader, plan, {"plan"});
        const detail::AttentionRecord *attention = attention_of(reader, name);
        if (!attention) return reader.status();
        const ConstView query_given = reader.input(query, {"query"}), key_given = reader.input(key, {"key"}),
                        value_given = reader.input(value, {"value"});
        const View out_given = reader.output(out, {"out"});
        const auto captures_given = read_captures(reader, *attention, captures, captures_count);
        const ParallelOptions options_given = read(reader, options, {"options"});
        if (!reader.ok()) return reader.status();
        return detail::run_user_attention_over_ranks(of_calls, collective, communicator_given, plan_given, *attention,
                                                     query_given, key_given, value_given, out_given, options_given,
                                                     captures_given);
    });
}

attune_status attune_user_attention_backward_over_ranks(
    attune_context *context, const attune_communicator *communicator, const attune_parallel_plan *plan, const char *name,
    const attune_tensor *query, const attune_tensor *key, const attune_tensor *value, const attune_sdpa_forward *forward,
    const attune_sdpa_gradients *gradients, const attune_capture_gradient *capture_gradients, size_t capture_gradients_count,
    const attune_capture *captures, size_t captures_count, const attune_parallel_options *options) {
    return run(context, [&](Reader &reader, Context &of_calls) -> Status {
        const Communicator communicator_given = read(reader, communicator, {"communicator"});
        const ParallelPlan &plan_given = read(reader, plan, {"plan"});
        const detail::AttentionRecord *attention = attention_of(reader, name);
        if (!attention) return reader.status();
        const ConstView query_given = reader.input(query, {"query"}), key_given = reader.input(key, {"key"}),
                        value_given = reader.input(value, {"value"});
        const SdpaForward forward_given = read(reader, forward, {"forward"});
        const SdpaGradients gradients_given = read(reader, gradients, {"gradients"});
        const auto wanted = read_capture_gradients(reader, *attention, capture_gradients, capture_gradients_count);
        const auto captures_given = read_captures(reader, *attention, captures, captures_count);
        const ParallelOptions options_given = read(reader, options, {"options"});
        if (!reader.ok()) return reader.status();
        return detail::run_user_attention_backward_over_ranks(of_calls, communicator_given, plan_given, *attention, query_given,
                                                              key_given, value_given, forward_given, gradients_given, wanted,
                                                              options_given, captures_given);
    });
}
