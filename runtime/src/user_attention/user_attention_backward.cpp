// SPDX-License-Identifier: MIT
// The gradients of a user's attention.
#include "attention/sdpa_device_call.h"
#include "user_attention/user_gradients.h"

namespace attune {
namespace {

// Checks everything and fills `call`.
Status check_gradients(const UserGradients &a, BackwardCall &call) {
    const auto &[user, query, key, value, forward, gradients, grad_captures, options] = a;
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
    return {};
}

}  // namespace

Status prepare_user_gradients(const Context::State &state, const UserGradients &a, BackwardCall &call, BackwardChoice &choice) {
    if (Status s = check_gradients(a, call); !s.ok()) return s;
    return choose_backward(state, call, a.options.variant, choice);
}

Status run_user_gradients(Context &context, Context::State &state, const UserGradients &a, std::string_view why_here) {
    const CallStart start = start_of_call();
    BackwardCall call;
    BackwardChoice choice;
    if (Status s = prepare_user_gradients(state, a, call, choice); !s.ok()) return s;
    if (Status s = run_backward(context, call, choice, state.threads); !s.ok())
        return in_words(*a.user.attention, std::move(s));
    if (!why_here.empty()) choice.tiles.reason = why_here;
    record_call(state, choice.tiles, call.forward.op.name, start, [&] { return sizes_text(call.forward.sizes); });
    return {};
}

namespace {

// Calls f with the arguments as the host's.
template<typename F> Status with_host_arguments(const UserGradients &a, const SdpaOptions &options, const F &f) {
    const std::vector<CaptureArgument> captures = as_host(a.user.captures);
    std::vector<View> grad_captures(a.grad_captures.begin(), a.grad_captures.end());
    for (View &v : grad_captures) v.place = Place::host;
    const ConstView query = as_host(a.query), key = as_host(a.key), value = as_host(a.value);
    return f(UserGradients{{a.user.attention, captures, a.user.block_mask},
                           query,
                           key,
                           value,
                           as_host(a.forward),
                           as_host(a.gradients),
                           grad_captures,
                           options});
}

Status run_on_device(Context &context, const UserGradients &a) {
    const AttentionRecord &attention = *a.user.attention;
    std::vector<NamedView> more = named_captures(a.user);
    std::vector<std::string> names;
    names.reserve(a.grad_captures.size());
    for (std::size_t n = 0; n < a.grad_captures.size(); n++) {
        const CaptureRecord &record = attention.captures[n];
        const View &gradient = a.grad_captures[n];
        const std::string &name = names.emplace_back("gradients." + std::string(record.name));
        if (gradient.given() && gradient.dtype == DType::f64) return unsupported(name, "is f64; devices compute f32");
        more.push_back({name, gradient});
    }
    const auto check = [&](BackwardCall &call) {
        return with_host_arguments(a, checked_on_host(a.options), [&](const UserGradients &host) {
            Status s = check_gradients(host, call);
            call.forward.user = &a.user, call.user_captures = a.grad_captures;
            return s;
        });
    };
    return in_words(attention,
                    gradients_on_device(context, a.query, a.key, a.value, a.forward, a.gradients, a.options, more, check));
}

Status run_gradients(Context &context, Context::State &state, const UserGradients &a) {
    if (a.query.place != Place::device) return run_user_gradients(context, state, a);
    std::string instead;
    if (Status s = find_device(state, "query", instead); !s.ok()) return s;
    if (instead.empty()) return run_on_device(context, a);
    return with_host_arguments(a, as_host(a.options),
                               [&](const UserGradients &host) { return run_user_gradients(context, state, host, instead); });
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
        return run_gradients(context, state, {{&attention, given, block_mask}, q, k, v, f, g, of_captures, o});
    };
    return answer(context, body, query, key, value, forward, gradients, grad_captures, options, captures);
}

}  // namespace detail
}  // namespace attune
