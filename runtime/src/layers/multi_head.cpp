// SPDX-License-Identifier: MIT
// Multi-head attention: linear, attention and linear, on scratch of the Context, whose strides split and merge heads.
#include "attune/multi_head.h"
#include "device/device_call.h"
#include "dispatch/op_call.h"
#include "dispatch/shape_record.h"
#include "layers/multi_head_call.h"
#include <algorithm>

namespace attune {

View split_heads(const View &v, std::int64_t heads) {
    const std::int64_t head_dim = v.extent[2] / heads;
    View split = v;
    split.rank = 4;
    split.extent[1] = heads, split.extent[2] = v.extent[1], split.extent[3] = head_dim;
    split.stride[1] = head_dim, split.stride[2] = v.stride[1], split.stride[3] = 1;
    return split;
}

View take_sequence(void *data, std::int64_t &bytes, DType dtype, std::int64_t batch, std::int64_t count, std::int64_t width) {
    constexpr std::int64_t line = 64;
    const std::int64_t stride = scratch_row_stride(width, dtype);
    bytes = (bytes + line - 1) / line * line;
    float *at = data ? reinterpret_cast<float *>(static_cast<char *>(data) + bytes) : nullptr;
    View v(at, {batch, count, width}, {count * stride, stride, 1});
    v.dtype = dtype;
    bytes += batch * count * stride * size_of(dtype);
    return v;
}

Projections take_projections(const MultiHeadLayer &l, void *data, std::int64_t &bytes) {
    const MultiHeadWeights &w = l.weights;
    const std::int64_t widths[] = {w.query.extent[0], w.key.extent[0], w.value.extent[0]};
    auto take = [&](std::int64_t count, std::int64_t width) {
        return take_sequence(data, bytes, l.query.dtype, l.batch, count, width);
    };
    Projections p;
    if (l.packed) {
        p.packed = take(l.queries, widths[0] + widths[1] + widths[2]);
        auto part = [&](std::int64_t first, std::int64_t width) {
            View v = p.packed;
            if (data) v.data = static_cast<char *>(v.data) + first * size_of(v.dtype);
            v.extent[2] = width;
            return v;
        };
        p.query = part(0, widths[0]), p.key = part(widths[0], widths[1]), p.value = part(widths[0] + widths[1], widths[2]);
    } else {
        p.query = take(l.queries, widths[0]), p.key = take(l.keys, widths[1]), p.value = take(l.keys, widths[2]);
    }
    p.heads_out = take(l.queries, l.heads * l.value_dim);
    return p;
}

Status
each_projection(const MultiHeadLayer &l, const Projections &p,
                const std::function<Status(const ConstView &, const ConstView &, const ConstView &, const View &)> &prepare) {
    const MultiHeadWeights &w = l.weights;
    if (l.packed) {
        ConstView weight = w.query, bias = w.query_bias;
        weight.extent[0] = p.packed.extent[2], weight.capacity = -1;  // all three, each checked before
        if (bias.given()) bias.extent[0] = p.packed.extent[2], bias.capacity = -1;
        return prepare(l.query, weight, bias, p.packed);
    }
    if (Status s = prepare(l.query, w.query, w.query_bias, p.query); !s.ok()) return s;
    if (Status s = prepare(l.key, w.key, w.key_bias, p.key); !s.ok()) return s;
    return prepare(l.value, w.value, w.value_bias, p.value);
}

Status PreparedProjections::prepare(const Context::State &context, const MultiHeadLayer &l, const Projections &p) {
    count_ = 0;
    return each_projection(l, p, [&](const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out) {
        return prepare_linear(context, x, weight, bias, out, {}, products_[count_++]);
    });
}

Status PreparedProjections::run(Context::State &context) const {
    for (std::size_t n = 0; n < count_; n++)
        if (Status s = run_product(context, products_[n], start_of_call()); !s.ok()) return s;
    return {};
}

Status prepare_attention(Context::State &context, const MultiHeadLayer &l, const Projections &p, const SdpaOptions &options,
                         PreparedSdpa &attention) {
    return attention.prepare(context, split_heads(p.query, l.heads), split_heads(p.key, l.key_heads),
                             split_heads(p.value, l.key_heads), split_heads(p.heads_out, l.heads), options);
}

namespace {

// The recorded line of the layer; its attention and products have lines of their own, with all of their options.
ShapeLine layer_line(const MultiHeadLayer &l, const SdpaOptions &o) {
    const std::int64_t width = l.heads * l.head_dim;
    ShapeLine line{.op = "multi_head",
                   .dtype = l.query.dtype,
                   .b = l.batch,
                   .h = l.heads,
                   .kv = l.key_heads,
                   .q = l.queries,
                   .k = l.keys,
                   .d = l.head_dim,
                   .dv = l.head_dim,
                   .causal = o.causal != Causal::none};
    line.exact = l.value_dim == l.head_dim && l.weights.out.extent[0] == width;
    for (const ConstView *x : {&l.query, &l.key, &l.value}) line.exact = line.exact && x->extent[x->rank - 1] == width;
    for (const ConstView &option : {o.valid_lens, o.mask, o.bias, o.alibi_slopes, o.sinks, ConstView(o.weights)})
        line.exact = line.exact && !option.given();
    line.exact =
        line.exact && o.window.left < 0 && o.window.right < 0 && !o.alibi && o.softcap == 0 && o.dropout.probability == 0;
    return line;
}

Status run(Context &context, MultiHeadLayer &l, const View &out, const MultiHeadOptions &options, std::string_view why_here) {
    const CallStart start = start_of_call();
    if (Status s = check_layer(options, l); !s.ok()) return s;
    if (Status s = check_layer_out("out", out, l); !s.ok()) return s;
    const SdpaOptions &o = options.attention;
    const NamedView outputs[] = {{"out", out}, {"lse", o.lse}, {"weights", o.weights}};
    if (Status s = check_layer_overlaps(l, o, {}, outputs); !s.ok()) return s;

    Context::State &state = state_of(context);
    std::int64_t bytes = 0, at = 0;
    take_projections(l, nullptr, bytes);
    ScratchBlock block(*state.scratch, static_cast<std::size_t>(bytes));
    if (!block.data()) return no_memory();
    const Projections p = take_projections(l, block.data(), at);
    PreparedProjections projections;
    PreparedSdpa attention;
    ProductCall to_out;
    if (Status s = projections.prepare(state, l, p); !s.ok()) return s;
    if (Status s = prepare_attention(state, l, p, o, attention); !s.ok()) return s;
    if (Status s = prepare_linear(state, p.heads_out, l.weights.out, l.weights.out_bias, out, {}, to_out); !s.ok()) return s;
    if (Status s = projections.run(state); !s.ok()) return s;
    if (Status s = attention.run(context, start_of_call(), why_here); !s.ok()) return s;
    const std::string_view variant = state.last_name;  // last_variant() is that of the attention
    if (Status s = run_product(state, to_out, start_of_call()); !s.ok()) return s;
    state.ran(variant);
    record_shape(state, start, [&] { return layer_line(l, o); });
    return {};
}

}  // namespace

Status multi_head_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                            const MultiHeadWeights &weights, const View &out, const MultiHeadOptions &options) noexcept {
    const auto on_host = [&](const ConstView &q, const ConstView &k, const ConstView &v, const MultiHeadWeights &w,
                             const View &o, const MultiHeadOptions &given, std::string_view why_here) {
        MultiHeadLayer layer{.query = q, .key = k, .value = v, .weights = w};
        return run(context, layer, o, given, why_here);
    };
    const auto body = [&](Context::State &state, const ConstView &q, const ConstView &k, const ConstView &v,
                          const MultiHeadWeights &w, const View &o, const MultiHeadOptions &given) -> Status {
        if (q.place != Place::device) return on_host(q, k, v, w, o, given, {});
        std::string instead;
        if (Status s = find_device(state, "query", instead); !s.ok()) return s;
        if (instead.empty()) return multi_head_on_device(context, q, k, v, w, o, given);
        return on_host(as_host(q), as_host(k), as_host(v), as_host(w), as_host(o), as_host(given), instead);
    };
    return answer(context, body, query, key, value, weights, out, options);
}

}  // namespace attune
