// SPDX-License-Identifier: MIT
// Gradients of multi-head attention: the forward pass is recomputed, then the gradients of its attention and of its linear maps
// are computed, on scratch of the Context.
#include "attune/multi_head_backward.h"
#include "attention/sdpa_call.h"
#include "attune/linear_backward.h"
#include "dispatch/op_call.h"
#include "layers/multi_head_call.h"
#include <array>

namespace attune {
namespace {

// One of the three maps into the attention: its tensors, its wanted gradients, and the gradient by its result.
struct Map {
    std::string_view name, weight_name, bias_name;
    const ConstView &x, &weight, &bias;
    const View &grad_x, &grad_weight, &grad_bias;
    View grad_result = {};
    bool wanted() const { return grad_x.given() || grad_weight.given() || grad_bias.given(); }
};

std::array<Map, 3> maps_of(const MultiHeadLayer &l, const MultiHeadGradients &g) {
    const MultiHeadWeights &w = l.weights;
    const MultiHeadWeightGradients &gw = g.weights;
    return {
        {{"query", "weights.query", "weights.query_bias", l.query, w.query, w.query_bias, g.query, gw.query, gw.query_bias},
         {"key", "weights.key", "weights.key_bias", l.key, w.key, w.key_bias, g.key, gw.key, gw.key_bias},
         {"value", "weights.value", "weights.value_bias", l.value, w.value, w.value_bias, g.value, gw.value, gw.value_bias}}};
}

Status check_gradient(std::string_view of, const ConstView &tensor, const View &gradient) {
    if (!gradient.given()) return {};
    const std::string name = "gradients." + std::string(of);
    if (!tensor.given()) return invalid(name, "given without " + std::string(of));
    if (gradient.rank != tensor.rank)
        return invalid(name, "rank is " + text(gradient.rank) + ", that of " + std::string(of) + " is " + text(tensor.rank));
    if (Status s = check_rows(name, gradient, of, tensor.dtype); !s.ok()) return s;
    for (int n = 0; n < tensor.rank; n++)
        if (Status s = check_extent(name, "extent " + text(n), gradient.extent[n], of, tensor.extent[n]); !s.ok()) return s;
    return {};
}

Status check(const MultiHeadLayer &l, const ConstView &grad_out, const MultiHeadGradients &g, const SdpaOptions &o) {
    if (o.lse.given()) return invalid("lse", "is no output of the backward");
    if (o.weights.given() || o.average_weights) return invalid("weights", "are no output of the backward");
    if (Status s = check_layer_out("grad_out", grad_out, l); !s.ok()) return s;
    for (const Map &m : maps_of(l, g)) {
        if (Status s = check_gradient(m.name, m.x, m.grad_x); !s.ok()) return s;
        if (Status s = check_gradient(m.weight_name, m.weight, m.grad_weight); !s.ok()) return s;
        if (Status s = check_gradient(m.bias_name, m.bias, m.grad_bias); !s.ok()) return s;
    }
    if (Status s = check_gradient("weights.out", l.weights.out, g.weights.out); !s.ok()) return s;
    if (Status s = check_gradient("weights.out_bias", l.weights.out_bias, g.weights.out_bias); !s.ok()) return s;
    const SdpaGradients &a = g.attention;
    for (const auto &[name, view] : {NamedView{"query", a.query}, NamedView{"key", a.key}, NamedView{"value", a.value}})
        if (view.given())
            return invalid("gradients.attention." + std::string(name), "is in scratch; give gradients." + std::string(name));
    const NamedView more_inputs[] = {{"grad_out", grad_out}};
    const NamedView outputs[] = {{"gradients.query", g.query},
                                 {"gradients.key", g.key},
                                 {"gradients.value", g.value},
                                 {"gradients.weights.query", g.weights.query},
                                 {"gradients.weights.key", g.weights.key},
                                 {"gradients.weights.value", g.weights.value},
                                 {"gradients.weights.out", g.weights.out},
                                 {"gradients.weights.query_bias", g.weights.query_bias},
                                 {"gradients.weights.key_bias", g.weights.key_bias},
                                 {"gradients.weights.value_bias", g.weights.value_bias},
                                 {"gradients.weights.out_bias", g.weights.out_bias},
                                 {"gradients.attention.bias", a.bias},
                                 {"gradients.attention.alibi_slopes", a.alibi_slopes},
                                 {"gradients.attention.sinks", a.sinks},
                                 {"gradients.attention.score_weight", a.score_weight}};
    return check_layer_overlaps(l, o, more_inputs, outputs);
}

// Tensors in scratch: those of the forward pass, and their gradients.
struct Places {
    Projections forward;
    View grad_query, grad_key, grad_value, grad_heads_out;
    View lse;  // (B, heads, Sq)
};

Places take_places(const MultiHeadLayer &l, void *data, std::int64_t &bytes) {
    const DType type = l.query.dtype;
    Places p;
    p.forward = take_projections(l, data, bytes);
    auto like = [&](const View &v) { return take_sequence(data, bytes, type, l.batch, v.extent[1], v.extent[2]); };
    p.grad_query = like(p.forward.query), p.grad_key = like(p.forward.key), p.grad_value = like(p.forward.value);
    p.grad_heads_out = like(p.forward.heads_out);
    p.lse = take_sequence(data, bytes, sum_type(type), l.batch, l.heads, l.queries);
    return p;
}

Status prepare_gradients(Context::State &context, const MultiHeadLayer &l, const Places &p, const std::array<Map, 3> &maps,
                         const SdpaGradients &of_options, const SdpaOptions &options, PreparedSdpaBackward &backward) {
    SdpaGradients g = of_options;
    if (maps[0].wanted()) g.query = split_heads(p.grad_query, l.heads);
    if (maps[1].wanted()) g.key = split_heads(p.grad_key, l.key_heads);
    if (maps[2].wanted()) g.value = split_heads(p.grad_value, l.key_heads);
    const SdpaForward forward{split_heads(p.forward.heads_out, l.heads), p.lse, split_heads(p.grad_heads_out, l.heads)};
    const Status s = backward.prepare(context, split_heads(p.forward.query, l.heads), split_heads(p.forward.key, l.key_heads),
                                      split_heads(p.forward.value, l.key_heads), forward, g, options);
    constexpr std::string_view prefix = "gradients.";
    if (s.ok() || !s.message().starts_with(prefix)) return s;
    return {s.code(), "gradients.attention." + s.message().substr(prefix.size())};
}

// All parts of a call, checked and with their kernels chosen, in the order in which they run.
struct Parts {
    PreparedProjections projections;
    PreparedSdpa attention;
    LinearBackwardCall of_heads_out, of_out;
    PreparedSdpaBackward gradients;
    std::array<LinearBackwardCall, 3> of_maps;
};

Status prepare(Context::State &state, const MultiHeadLayer &l, const Places &p, const std::array<Map, 3> &maps,
               const ConstView &grad_out, const MultiHeadGradients &g, const SdpaOptions &options, Parts &parts) {
    if (Status s = parts.projections.prepare(state, l, p.forward); !s.ok()) return s;
    SdpaOptions forward = options;
    forward.lse = p.lse, forward.variant = {};
    if (Status s = prepare_attention(state, l, p.forward, forward, parts.attention); !s.ok()) return s;
    const MultiHeadWeights &w = l.weights;
    const LinearGradients of_heads_out{.x = p.grad_heads_out}, of_out{.weight = g.weights.out, .bias = g.weights.out_bias};
    if (Status s = prepare_linear_backward(state, {}, w.out, grad_out, of_heads_out, {}, parts.of_heads_out); !s.ok()) return s;
    if (Status s = prepare_gradients(state, l, p, maps, g.attention, options, parts.gradients); !s.ok()) return s;
    if (Status s = prepare_linear_backward(state, p.forward.heads_out, {}, grad_out, of_out, {}, parts.of_out); !s.ok())
        return s;
    for (std::size_t n = 0; n < maps.size(); n++) {
        const Map &m = maps[n];
        const LinearGradients wanted{m.grad_x, m.grad_weight, m.grad_bias};
        if (!m.wanted()) continue;
        if (Status s = prepare_linear_backward(state, m.x, m.weight, m.grad_result, wanted, {}, parts.of_maps[n]); !s.ok())
            return s;
    }
    return {};
}

Status run(Context &context, MultiHeadLayer &l, const ConstView &grad_out, const MultiHeadGradients &g,
           const MultiHeadOptions &options) {
    if (Status s = check_layer(options, l); !s.ok()) return s;
    if (Status s = check(l, grad_out, g, options.attention); !s.ok()) return s;
    Context::State &state = state_of(context);
    std::int64_t bytes = 0, at = 0;
    take_places(l, nullptr, bytes);
    ScratchBlock block(*state.scratch, static_cast<std::size_t>(bytes));
    if (!block.data()) return no_memory();
    const Places p = take_places(l, block.data(), at);
    std::array<Map, 3> maps = maps_of(l, g);
    maps[0].grad_result = p.grad_query, maps[1].grad_result = p.grad_key, maps[2].grad_result = p.grad_value;

    Parts parts;
    if (Status s = prepare(state, l, p, maps, grad_out, g, options.attention, parts); !s.ok()) return s;
    if (Status s = parts.projections.run(state); !s.ok()) return s;
    if (Status s = parts.attention.run(context, start_of_call()); !s.ok()) return s;
    if (Status s = run_linear_backward(state, parts.of_heads_out, start_of_call()); !s.ok()) return s;
    if (Status s = parts.gradients.run(context, start_of_call()); !s.ok()) return s;
    const std::string_view variant = state.last_name;  // last_variant() is that of the attention
    if (Status s = run_linear_backward(state, parts.of_out, start_of_call()); !s.ok()) return s;
    for (std::size_t n = 0; n < maps.size(); n++)
        if (maps[n].wanted())
            if (Status s = run_linear_backward(state, parts.of_maps[n], start_of_call()); !s.ok()) return s;
    state.ran(variant);
    return {};
}

}  // namespace

Status multi_head_attention_backward(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                                     const MultiHeadWeights &weights, const ConstView &grad_out,
                                     const MultiHeadGradients &gradients, const MultiHeadOptions &options) noexcept {
    const auto body = [&](Context::State &, const ConstView &q, const ConstView &k, const ConstView &v,
                          const MultiHeadWeights &w, const ConstView &grad, const MultiHeadGradients &g,
                          const MultiHeadOptions &o) {
        MultiHeadLayer layer{.query = q, .key = k, .value = v, .weights = w};
        return run(context, layer, grad, g, o);
    };
    return answer(context, body, query, key, value, weights, grad_out, gradients, options);
}

}  // namespace attune
