// SPDX-License-Identifier: MIT
#include "attune/additive_backward.h"
#include "attention_backward/sdpa_backward_call.h"
#include "attune/linear_backward.h"
#include "layers/additive_call.h"
#include "layers/projection.h"

namespace attune {
namespace {

// Checks the gradients that attention has not.
Status check_own_gradients(const ConstView &query, const ConstView &key, const AdditiveGradients &g, const AdditiveOptions &o) {
    struct Gradient {
        std::string_view name;
        View gradient;
        std::string_view of;
        ConstView tensor;
        bool projected;
    };
    View as4;
    for (const Gradient &x : {Gradient{"gradients.query", g.query, "query", query, o.w_query.given()},
                              Gradient{"gradients.key", g.key, "key", key, o.w_key.given()},
                              Gradient{"gradients.w_query", g.w_query, "w_query", o.w_query, true},
                              Gradient{"gradients.w_key", g.w_key, "w_key", o.w_key, true},
                              Gradient{"gradients.b_query", g.b_query, "b_query", o.b_query, true},
                              Gradient{"gradients.b_key", g.b_key, "b_key", o.b_key, true},
                              Gradient{"gradients.w_score", g.w_score, "w_score", o.w_score, true}})
        if (x.projected)
            if (Status s = check_tensor_gradient(x.name, x.gradient, x.of, x.tensor, as4); !s.ok()) return s;
    return {};
}

Status check_all_overlaps(const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &forward,
                          const AdditiveGradients &g, const AdditiveOptions &o) {
    std::vector<NamedView> inputs = named_backward_inputs(query, key, value, forward, o.attention);
    for (const NamedView &input : additive_inputs(query, key, o)) inputs.push_back(input);
    const NamedView outputs[] = {{"gradients.query", g.query}, {"gradients.key", g.key},
                                 {"gradients.value", g.value}, {"gradients.w_query", g.w_query},
                                 {"gradients.w_key", g.w_key}, {"gradients.b_query", g.b_query},
                                 {"gradients.b_key", g.b_key}, {"gradients.w_score", g.w_score},
                                 {"gradients.bias", g.bias},   {"gradients.alibi_slopes", g.alibi_slopes},
                                 {"gradients.sinks", g.sinks}};
    return check_overlaps(inputs, outputs);
}

Status run(Context &context, const ConstView &query, const ConstView &key, const ConstView &value, const SdpaForward &forward,
           const AdditiveGradients &g, const AdditiveOptions &options) {
    const CallStart start = start_of_call();
    Context::State &state = state_of(context);
    if (Status s = check_additive_options(options, query.dtype); !s.ok()) return s;
    if (Status s = check_wide_for("additive attention", "query", query.dtype); !s.ok()) return s;
    Projection q({"query", query}, {"w_query", options.w_query}, {"b_query", options.b_query});
    Projection k({"key", key}, {"w_key", options.w_key}, {"b_key", options.b_key});
    if (Status s = q.prepare(state); !s.ok()) return s;
    if (Status s = k.prepare(state); !s.ok()) return s;
    if (Status s = check_additive_widths(options, q.result(), k.result()); !s.ok()) return s;
    ProjectionGradient of_query(query, options.w_query, {g.query, g.w_query, g.b_query});
    ProjectionGradient of_key(key, options.w_key, {g.key, g.w_key, g.b_key});
    if (Status s = of_query.prepare(state, q.result()); !s.ok()) return s;
    if (Status s = of_key.prepare(state, k.result()); !s.ok()) return s;
    SdpaGradients attended;
    attended.query = of_query.result(), attended.key = of_key.result(), attended.value = g.value;
    attended.bias = g.bias, attended.alibi_slopes = g.alibi_slopes, attended.sinks = g.sinks;
    BackwardCall call;
    if (Status s = check_backward(q.result(), k.result(), value, forward, attended, options.attention, call); !s.ok()) return s;
    if (options.w_score.given())
        if (Status s = check_w_score(options.w_score, call.forward.sizes); !s.ok()) return s;
    if (Status s = check_own_gradients(query, key, g, options); !s.ok()) return s;
    if (Status s = check_all_overlaps(query, key, value, forward, g, options); !s.ok()) return s;
    call.forward.op = ops::additive_backward, call.capture_op = ops::additive_capture_gradient;
    const AdditiveWeight weight(options, call.forward);
    call.pair_weight = g.w_score;

    BackwardChoice choice;
    if (Status s = choose_backward(state, call, options.attention.variant, choice); !s.ok()) return s;
    if (Status s = of_query.choose(state); !s.ok()) return s;
    if (Status s = of_key.choose(state); !s.ok()) return s;
    if (Status s = q.run(state); !s.ok()) return s;
    if (Status s = k.run(state); !s.ok()) return s;
    if (Status s = run_backward(context, call, choice, state.threads); !s.ok()) return s;
    if (Status s = of_query.run(state); !s.ok()) return s;
    if (Status s = of_key.run(state); !s.ok()) return s;
    record_call(state, choice.tiles, call.forward.op.name, start, [&] { return sizes_text(call.forward.sizes); });
    return {};
}

}  // namespace

Status additive_attention_backward(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                                   const SdpaForward &forward, const AdditiveGradients &gradients,
                                   const AdditiveOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v, const SdpaForward &f,
                          const AdditiveGradients &g, const AdditiveOptions &o) { return run(context, q, k, v, f, g, o); };
    return answer(context, body, query, key, value, forward, gradients, options);
}

}  // namespace attune
