// SPDX-License-Identifier: MIT
// The gradients of a user's attention.
#include "attention_backward/sdpa_backward_call.h"
#include "attune/detail/user_attention.h"
#include "user_attention/user_call.h"

namespace attune {
namespace {

Status run_gradients(Context &context, Context::State &state, const UserCall &user, const ConstView &query,
                     const ConstView &key, const ConstView &value, const SdpaForward &forward, const SdpaGradients &gradients,
                     ArrayView<const View> grad_captures, const SdpaOptions &options) {
    const CallStart start = start_of_call();
    const AttentionRecord &attention = *user.attention;
    if (Status s = check_user_options(attention, options); !s.ok()) return s;
    if (attention.backward_op.empty())
        return unsupported("backward", "is not in this library: make " + std::string(attention.name) + " with BACKWARD");
    // Gradients that only other scores have.
    if (gradients.score_weight.given()) return invalid("gradients.score_weight", "given without score_weight");
    if (gradients.bias.given() || gradients.alibi_slopes.given())
        return unsupported(gradients.bias.given() ? "gradients.bias" : "gradients.alibi_slopes",
                           "a user's attention gives gradients of its captures: capture it");
    std::vector<NamedView> captured;
    if (Status s = check_real("query", query); !s.ok()) return s;
    if (Status s = check_captures(user, query.dtype, captured); !s.ok()) return s;
    BackwardCall call;
    if (Status s = check_backward(query, key, value, forward, gradients, options, call); !s.ok()) return s;
    std::vector<NamedView> inputs = named_backward_inputs(query, key, value, forward, options), outputs;
    inputs.insert(inputs.end(), captured.begin(), captured.end());
    outputs = {{"gradients.query", gradients.query},
               {"gradients.key", gradients.key},
               {"gradients.value", gradients.value},
               {"gradients.sinks", gradients.sinks}};
    std::vector<std::string> names;
    names.reserve(grad_captures.size());
    for (std::size_t n = 0; n < grad_captures.size(); n++) {
        if (!grad_captures[n].given()) continue;
        const CaptureRecord &record = attention.captures[n];
        const std::string &name = names.emplace_back("gradients." + std::string(record.name));
        if (!record.has_gradient) return invalid(name, "there is none: only float buffers that a score reads have one");
        if (Status s =
                check_gradient(name, grad_captures[n], record.name, user.captures[n].buffer, type_of(record, query.dtype));
            !s.ok())
            return s;
        if (Status s = check_dense(name, grad_captures[n]); !s.ok()) return s;
        outputs.push_back({name, grad_captures[n]});
    }
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    call.forward.op = op_of_user(attention.backward_op);
    call.forward.user = &user;
    call.forward.scale = scale_of(options, call.forward.sizes.head_dim);
    call.user_captures = grad_captures;
    BackwardChoice choice;
    if (Status s = choose_backward(state, call, options.variant, choice); !s.ok()) return s;
    if (Status s = run_backward(context, call, choice, state.threads); !s.ok()) return in_words(attention, std::move(s));
    record_call(state, choice.tiles, call.forward.op.name, start, [&] { return sizes_text(call.forward.sizes); });
    return {};
}

}  // namespace

namespace detail {

Status run_user_attention_backward(Context &context, const AttentionRecord &attention, const ConstView &query,
                                   const ConstView &key, const ConstView &value, const SdpaForward &forward,
                                   const SdpaGradients &gradients, ArrayView<const View> grad_captures,
                                   const SdpaOptions &options, ArrayView<const CaptureArgument> captures,
                                   BlockMask *block_mask) noexcept {
    const auto body = [&](Context::State &state, const ConstView &q, const ConstView &k, const ConstView &v,
                          const SdpaForward &f, const SdpaGradients &g, std::span<const View> of_captures, const SdpaOptions &o,
                          std::span<const CaptureArgument> given) {
        return run_gradients(context, state, {&attention, given, block_mask}, q, k, v, f, g, of_captures, o);
    };
    return answer(context, body, query, key, value, forward, gradients, grad_captures, options, captures);
}

}  // namespace detail
}  // namespace attune
