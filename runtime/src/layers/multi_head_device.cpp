// SPDX-License-Identifier: MIT
// Multi-head attention of tensors on a device: linear, attention and linear, queued one after another, on the device's memory.
#include "attention/sdpa_device_call.h"
#include "layers/multi_head_call.h"

namespace attune {
namespace {

// Products and attention of a layer, whose views are marked as the host's and whose places are checked.
struct DeviceLayer {
    std::array<DeviceProduct, 3> projections;
    std::size_t count = 0;
    DeviceAttention attention;
    DeviceProduct to_out;

    Status prepare(const Context::State &context, const MultiHeadLayer &l, const Projections &p, const View &out,
                   const SdpaOptions &options) {
        const auto product = [&](const ConstView &x, const ConstView &weight, const ConstView &bias, const View &of) {
            return prepare_linear_on_device(context, x, weight, bias, of, {}, projections[count++]);
        };
        if (Status s = each_projection(l, p, product); !s.ok()) return s;
        const auto complete = [&](SdpaCall &call) {
            call.op = op_of(options.score), call.scale = scale_of(options, call.sizes.head_dim);
            return Status();
        };
        if (Status s = prepare_attention_on_device(context, split_heads(p.query, l.heads), split_heads(p.key, l.key_heads),
                                                   split_heads(p.value, l.key_heads), split_heads(p.heads_out, l.heads),
                                                   options, {}, complete, attention);
            !s.ok())
            return s;
        return prepare_linear_on_device(context, p.heads_out, l.weights.out, l.weights.out_bias, out, {}, to_out);
    }

    Status run(Context::State &context) const {
        for (std::size_t n = 0; n < count; n++)
            if (Status s = run_product_on_device(context, projections[n], start_of_call()); !s.ok()) return s;
        if (Status s = run_prepared_on_device(context, attention, start_of_call()); !s.ok()) return s;
        const std::string_view variant = context.last_name;  // last_variant() is that of the attention
        if (Status s = run_product_on_device(context, to_out, start_of_call()); !s.ok()) return s;
        context.ran(variant);
        return {};
    }
};

}  // namespace

Status multi_head_on_device(Context &caller, const ConstView &query, const ConstView &key, const ConstView &value,
                            const MultiHeadWeights &weights, const View &out, const MultiHeadOptions &options) {
    Context::State &context = state_of(caller);
    const SdpaOptions &attention = options.attention;
    const MultiHeadLayer given{.query = query, .key = key, .value = value, .weights = weights};
    std::vector<NamedView> all = layer_inputs(given, attention);
    all.insert(all.end(), {{"out", out}, {"lse", attention.lse}, {"weights", attention.weights}});
    if (Status s = check_places(all, "query"); !s.ok()) return s;
    if (Status s = check_device_options(attention, query.dtype); !s.ok()) return s;

    const ConstView q = as_host(query), k = as_host(key), v = as_host(value);
    const MultiHeadWeights w = as_host(weights);
    const View o = as_host(out);
    MultiHeadLayer l{.query = q, .key = k, .value = v, .weights = w};
    if (Status s = check_layer(options, l); !s.ok()) return s;
    if (Status s = check_layer_out("out", o, l); !s.ok()) return s;
    const SdpaOptions on_host = as_host(attention);
    const NamedView outputs[] = {{"out", o}, {"lse", on_host.lse}};
    if (Status s = check_layer_overlaps(l, on_host, {}, outputs); !s.ok()) return s;

    std::int64_t bytes = 0, at = 0;
    take_projections(l, nullptr, bytes);
    const DeviceMemory block(context, static_cast<std::size_t>(bytes));
    if (!block.status().ok()) return block.status();
    DeviceLayer layer;
    if (Status s = layer.prepare(context, l, take_projections(l, block.data(), at), o, attention); !s.ok()) return s;
    return layer.run(context);
}

}  // namespace attune
