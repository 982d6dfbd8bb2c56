// SPDX-License-Identifier: MIT
// Gradients of attention of tensors on a device.
#include "attention/sdpa_device_call.h"
#include "attention_backward/sdpa_backward_call.h"

namespace attune {
namespace {

Status check_wanted(const SdpaGradients &g) {
    const std::pair<std::string_view, const View &> others[] = {{"gradients.bias", g.bias},
                                                                {"gradients.alibi_slopes", g.alibi_slopes},
                                                                {"gradients.sinks", g.sinks},
                                                                {"gradients.score_weight", g.score_weight}};
    for (const auto &[name, view] : others)
        if (view.given()) return unsupported(name, "is not computed on a device");
    return {};
}

Status run_kernel(Context::State &context, const BackwardCall &c, const VariantRecord &variant, const DeviceBands &bands) {
    const SdpaProblem &p = c.forward.sizes;
    DeviceCall call(variant);
    const DeviceAttentionForm form = form_on_device(c.forward, variant);
    const DeviceAttentionArguments inputs = attention_inputs(call, c.forward, bands, form);
    // Without queries or keys a kernel writes a row of scratch.
    const std::int64_t queries = std::max<std::int64_t>(p.queries, 1), keys = std::max<std::int64_t>(p.keys, 1);
    const ConstView &memory = p.queries ? c.forward.query : c.forward.value;
    auto row = [&](const ConstView &v) {
        ConstView instead = stand_in(memory, p.dtype, {p.batch, p.query_heads, queries, p.value_dim});
        instead.stride[3] = 1;
        return p.queries ? v : instead;
    };
    const ConstView of_rows = stand_in(memory, DType::f32, {p.batch, p.query_heads, queries});
    auto gradient = [&](const View &v, std::int64_t heads, std::int64_t rows, std::int64_t channels) {
        return v.given() && v.extent[2] == rows ? call.buffer(v)
                                                : call.scratch_buffer({p.batch, heads, rows, channels}, p.dtype);
    };
    const void *const grad_out = (p.queries ? c.grad_out : memory).data;
    const DeviceGradientsArguments own{.forward_out = call.buffer(row(c.forward.out)),
                                       .grad_out = call.buffer(row(c.grad_out)),
                                       .lse = call.buffer(p.queries ? c.lse : of_rows),
                                       .has_grad_lse = c.grad_lse.given(),
                                       .grad_lse = call.buffer(p.queries ? given_or(c.grad_lse, of_rows) : of_rows),
                                       // For kernels that copy rows with cp.async.
                                       .grad_out_address =
                                           static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(grad_out)),
                                       .row_lse = call.scratch_buffer({p.batch, p.query_heads, queries}),
                                       .row_delta = call.scratch_buffer({p.batch, p.query_heads, queries}),
                                       .grad_query = gradient(c.query, p.query_heads, queries, p.head_dim),
                                       .grad_key = gradient(c.key, p.key_heads, keys, p.head_dim),
                                       .grad_value = gradient(c.value, p.key_heads, keys, p.value_dim)};
    inputs.append_to(call.args, form);
    own.append_to(call.args, form);
    return device_backend()->run(context, call);
}

}  // namespace

Status sdpa_backward_on_device(Context &caller, const ConstView &query, const ConstView &key, const ConstView &value,
                               const SdpaForward &forward, const SdpaGradients &gradients, const SdpaOptions &options) {
    const CallStart start = start_of_call();
    Context::State &context = state_of(caller);
    std::vector<NamedView> all = named_backward_inputs(query, key, value, forward, options);
    all.insert(all.end(), {{"gradients.query", gradients.query},
                           {"gradients.key", gradients.key},
                           {"gradients.value", gradients.value},
                           {"lse", options.lse},
                           {"weights", options.weights}});
    if (Status s = check_places(all, "query"); !s.ok()) return s;
    if (Status s = check_wanted(gradients); !s.ok()) return s;
    if (Status s = check_device_options(options, query.dtype); !s.ok()) return s;
    BackwardCall call;
    if (Status s = check_sdpa_backward(as_host(query), as_host(key), as_host(value), as_host(forward), as_host(gradients),
                                       checked_on_host(options), call);
        !s.ok())
        return s;
    if (Status s = check_32_bit_places(all, kernels_for_a_device); !s.ok()) return s;
    DeviceBands bands;
    if (Status s = find_device_bands(options, call.forward.sizes, bands); !s.ok()) return s;
    const SdpaProblem &p = call.forward.sizes;
    call.forward.op = ops::sdpa_backward;
    Choice choice = {nullptr, "no rows"};
    if (p.batch > 0 && p.query_heads > 0 && (p.queries > 0 || p.keys > 0)) {
        call.forward.scale = scale_of(options, p.head_dim);
        const DeviceNeeds needs{call.forward.op, p.dtype,
                                [&](const VariantRecord &v) {
                                    return fits_on_device(v, call.forward) &&
                                           (v.head_dim == 0 || (is_aligned(call.forward.out) && is_aligned(call.grad_out)));
                                },
                                [](const VariantRecord &a, const VariantRecord &b) { return better_on_device(a, b, false); },
                                [&] { return "head sizes " + text(p.head_dim) + " and " + text(p.value_dim); }};
        if (Status s = choose_on_device(context, needs, options.variant, choice); !s.ok()) return s;
        if (Status s = run_kernel(context, call, *choice.variant, bands); !s.ok()) return s;
    }
    record_call(context, choice, call.forward.op.name, start, [&] { return sizes_text(p); });
    return {};
}

}  // namespace attune
