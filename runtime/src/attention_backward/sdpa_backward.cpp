// SPDX-License-Identifier: MIT
#include "attune/sdpa_backward.h"
#include "attention/prepared_sdpa.h"
#include "attention/sdpa_device_call.h"
#include "dispatch/shape_record.h"

namespace attune {

Status check_gradient(std::string_view name, const View &gradient, std::string_view of, const ConstView &tensor, DType type) {
    if (!gradient.given()) return {};
    if (!tensor.given()) return invalid(name, "given without " + std::string(of));
    if (gradient.rank != tensor.rank)
        return invalid(name, "rank is " + text(gradient.rank) + ", that of " + std::string(of) + " is " + text(tensor.rank));
    if (Status s = check_same_type(name, gradient.dtype, of, type); !s.ok()) return s;
    if (Status s = check_memory(name, gradient); !s.ok()) return s;
    for (int n = 0; n < tensor.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), gradient.extent[n], of, tensor.extent[n]); !s.ok()) return s;
    return {};
}

Status check_tensor_gradient(std::string_view name, const View &gradient, std::string_view of, const ConstView &tensor,
                             View &as4) {
    if (Status s = check_gradient(name, gradient, of, tensor, tensor.dtype); !s.ok() || !gradient.given()) return s;
    if (Status s = check_dense(name, gradient); !s.ok()) return s;
    as4 = as_rank4(gradient, true);
    return {};
}

Status check_backward(const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &forward,
                      const SdpaGradients &gradients, const SdpaOptions &options, BackwardCall &call) {
    if (options.lse.given()) return invalid("lse", "is an input of the backward: give it as forward.lse");
    if (options.weights.given() || options.average_weights) return invalid("weights", "are no output of the backward");
    SdpaCall &c = call.forward;
    if (Status s = check_inputs(query, key, value, {"forward.out", forward.out}, options, c); !s.ok()) return s;
    if (!forward.lse.given()) return invalid("forward.lse", "must be given");
    if (Status s = check_by_query("forward.lse", forward.lse, query.rank, c.sizes, call.lse); !s.ok()) return s;
    View grad_out;
    if (!forward.grad_out.given()) return invalid("forward.grad_out", "must be given");
    if (Status s = check_tensor_gradient("forward.grad_out", writable(forward.grad_out), "forward.out", forward.out, grad_out);
        !s.ok())
        return s;
    call.grad_out = grad_out;
    if (forward.grad_lse.given())
        if (Status s = check_by_query("forward.grad_lse", forward.grad_lse, query.rank, c.sizes, call.grad_lse); !s.ok())
            return s;

    const SdpaGradients &g = gradients;
    if (Status s = check_tensor_gradient("gradients.query", g.query, "query", query, call.query); !s.ok()) return s;
    if (Status s = check_tensor_gradient("gradients.key", g.key, "key", key, call.key); !s.ok()) return s;
    if (Status s = check_tensor_gradient("gradients.value", g.value, "value", value, call.value); !s.ok()) return s;
    if (Status s = check_gradient("gradients.bias", g.bias, "bias", options.bias, query.dtype); !s.ok()) return s;
    if (g.bias.given())
        if (Status s = check_dense("gradients.bias", g.bias); !s.ok()) return s;
    const ConstView standard(c.standard_slopes ? c.standard_slopes->data() : nullptr, {c.sizes.query_heads});
    const ConstView &slopes = c.standard_slopes ? standard : options.alibi_slopes;
    if (Status s = check_gradient("gradients.alibi_slopes", g.alibi_slopes, "alibi_slopes", slopes, DType::f32); !s.ok())
        return s;
    if (Status s = check_gradient("gradients.sinks", g.sinks, "sinks", options.sinks, DType::f32); !s.ok()) return s;
    // bias: rank 4, with extents of 1 where options.bias broadcasts; slopes: (B or 1, Hq, 1, 1).
    if (g.bias.given()) call.bias = as_rank4(g.bias, query.rank == 3);
    if (g.alibi_slopes.given()) {
        View as4 = g.alibi_slopes;
        as4.rank = 4;
        for (int n = 3; n >= 0; n--) as4.extent[n] = 1, as4.stride[n] = n == 3;
        const int head = g.alibi_slopes.rank - 1;
        as4.extent[1] = g.alibi_slopes.extent[head], as4.stride[1] = g.alibi_slopes.stride[head];
        if (head == 1) as4.extent[0] = g.alibi_slopes.extent[0], as4.stride[0] = g.alibi_slopes.stride[0];
        call.alibi_slopes = as4;
    }
    call.sinks = g.sinks;
    return {};
}

std::vector<NamedView> named_backward_inputs(const ConstView &query, const ConstView &key, const ConstView &value,
                                             const SdpaForward &forward, const SdpaOptions &options) {
    std::vector<NamedView> inputs = named_inputs(query, key, value, options);
    inputs.insert(inputs.end(), {{"forward.out", forward.out},
                                 {"forward.lse", forward.lse},
                                 {"forward.grad_out", forward.grad_out},
                                 {"forward.grad_lse", forward.grad_lse}});
    return inputs;
}

namespace {

// Arguments of the caller. With Score::general `attended` are the projected keys, and grad_attended receives their gradient.
struct Arguments {
    const ConstView &query, &key, &value;
    const SdpaForward &forward;
    const SdpaGradients &gradients;
    const SdpaOptions &options;
    ConstView attended = key;
    View grad_attended = gradients.key;
};

Status check(const Arguments &a, BackwardCall &call) {
    const SdpaGradients &g = a.gradients;
    SdpaGradients of_attended = g;
    of_attended.key = a.grad_attended;
    if (Status s = check_backward(a.query, a.attended, a.value, a.forward, of_attended, a.options, call); !s.ok()) return s;
    View unused;
    if (Status s = check_tensor_gradient("gradients.key", g.key, "key", a.key, unused); !s.ok()) return s;
    if (Status s =
            check_tensor_gradient("gradients.score_weight", g.score_weight, "score_weight", a.options.score_weight, unused);
        !s.ok())
        return s;
    const NamedView outputs[] = {{"gradients.query", g.query},
                                 {"gradients.key", g.key},
                                 {"gradients.value", g.value},
                                 {"gradients.bias", g.bias},
                                 {"gradients.alibi_slopes", g.alibi_slopes},
                                 {"gradients.sinks", g.sinks},
                                 {"gradients.score_weight", g.score_weight}};
    std::vector<NamedView> inputs = named_backward_inputs(a.query, a.key, a.value, a.forward, a.options);
    inputs.push_back({"score_weight", a.options.score_weight});
    return check_overlaps(inputs, outputs);
}

}  // namespace

Status check_sdpa_backward(const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &forward,
                           const SdpaGradients &gradients, const SdpaOptions &options, BackwardCall &call) {
    return check({query, key, value, forward, gradients, options}, call);
}

namespace {

// Checks score_weight: q . (W k) is a dot product with projected keys.
Status check_score_weight(const Arguments &a) {
    if (a.query.rank < 1 || a.query.rank > max_rank) return {};  // refused with the other views
    return check_extent("score_weight", "number of rows (first extent)", a.options.score_weight.extent[0], "query",
                        a.query.extent[a.query.rank - 1]);
}

const Op &backward_op_of(Score score) {
    if (score == Score::cosine) return ops::cosine_backward;
    return score == Score::gaussian ? ops::gaussian_backward : ops::sdpa_backward;
}
const Op &capture_op_of(Score score) {
    if (score == Score::cosine) return ops::cosine_capture_gradient;
    return score == Score::gaussian ? ops::gaussian_capture_gradient : ops::capture_gradient;
}

}  // namespace

void set_backward_ops(Score score, BackwardCall &call) {
    call.forward.op = backward_op_of(score), call.capture_op = capture_op_of(score);
}

namespace {

Status run(Context &context, const Arguments &a, std::string_view why_here = {});

Status run_on_device(Context &context, const Arguments &a) {
    std::string instead;
    if (Status s = find_device(state_of(context), "query", instead); !s.ok()) return s;
    if (instead.empty()) return sdpa_backward_on_device(context, a.query, a.key, a.value, a.forward, a.gradients, a.options);
    const ConstView query = as_host(a.query), key = as_host(a.key), value = as_host(a.value);
    const SdpaForward forward = as_host(a.forward);
    const SdpaGradients gradients = as_host(a.gradients);
    const SdpaOptions options = as_host(a.options);
    const Arguments here{query, key, value, forward, gradients, options};
    return run(context, here, instead);
}

Status run(Context &context, const Arguments &a, std::string_view why_here) {
    if (a.query.place == Place::device) return run_on_device(context, a);
    const CallStart start = start_of_call();
    PreparedSdpaBackward prepared;
    if (Status s = prepared.prepare(state_of(context), a.query, a.key, a.value, a.forward, a.gradients, a.options); !s.ok())
        return s;
    return prepared.run(context, start, why_here);
}

}  // namespace

Status PreparedSdpaBackward::prepare(Context::State &context, const ConstView &query, const ConstView &key,
                                     const ConstView &value, const SdpaForward &forward, const SdpaGradients &g,
                                     const SdpaOptions &options) {
    if (Status s = check_score(options); !s.ok()) return s;
    Arguments a{query, key, value, forward, g, options};
    const bool general = options.score == Score::general;
    if (general) {
        projected_.emplace(NamedView{"key", key}, NamedView{"score_weight", options.score_weight}, NamedView{});
        of_key_.emplace(key, options.score_weight, LinearGradients{g.key, g.score_weight, {}});
        if (Status s = projected_->prepare(context); !s.ok()) return s;
        if (Status s = check_score_weight(a); !s.ok()) return s;
        if (Status s = of_key_->prepare(context, projected_->result()); !s.ok()) return s;
        a.attended = projected_->result(), a.grad_attended = of_key_->result();
    }
    if (Status s = check(a, call_); !s.ok()) return s;
    set_backward_ops(options.score, call_);
    call_.forward.scale = scale_of(options, call_.forward.sizes.head_dim);
    is_benchmarked_ = !general && g.query.given() && g.key.given() && g.value.given() && !g.alibi_slopes.given() &&
                      g.bias.given() == options.bias.given();
    if (general)
        if (Status s = of_key_->choose(context); !s.ok()) return s;
    return choose_backward(context, call_, options.variant, choice_);
}

Status PreparedSdpaBackward::run(Context &context, CallStart start, std::string_view why_here) {
    if (projected_)
        if (Status s = projected_->run(state_of(context)); !s.ok()) return s;
    if (!why_here.empty()) choice_.tiles.reason = why_here;
    if (Status s = run_backward(context, call_, choice_, state_of(context).threads); !s.ok()) return s;
    if (of_key_)
        if (Status s = of_key_->run(state_of(context)); !s.ok()) return s;
    record_call(state_of(context), choice_.tiles, call_.forward.op.name, start,
                [&] { return sizes_text(call_.forward.sizes); });
    if (call_.forward.op.id != OpId::sdpa_backward) return {};  // shape files have no other op
    record_shape(state_of(context), start, [&] {
        ShapeLine line = shape_line(call_.forward.op.name, call_.forward);
        line.exact = line.exact && is_benchmarked_;
        return line;
    });
    return {};
}

Status scaled_dot_product_attention_backward(Context &context, const ConstView &query, const ConstView &key,
                                             const ConstView &value, const SdpaForward &forward, const SdpaGradients &gradients,
                                             const SdpaOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const SdpaForward &f,
                          const SdpaGradients &g, const SdpaOptions &o) {
        const Arguments arguments{q, k, v, f, g, o};
        return run(context, arguments);
    };
    return answer(context, body, query, key, value, forward, gradients, options);
}

}  // namespace attune
