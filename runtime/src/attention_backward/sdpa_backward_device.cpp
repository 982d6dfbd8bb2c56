// SPDX-License-Identifier: MIT
// Gradients of attention of tensors on a device.
#include "attention/attention_cost.h"
#include "attention/sdpa_device_call.h"
#include "attention_backward/sdpa_backward_call.h"
#include "user_attention/user_call.h"
#include <algorithm>

namespace attune {

Status check_device_gradients(const SdpaGradients &g) {
    return g.score_weight.given() ? unsupported("gradients.score_weight", "is not computed on a device") : Status();
}

namespace {

// Rows of the totals of a call: without queries or keys a kernel writes a row.
std::int64_t rows_of_totals(const BackwardCall &c) { return std::max<std::int64_t>(c.forward.sizes.queries, 1); }
std::size_t bytes_of_totals(const BackwardCall &c) {
    const SdpaProblem &p = c.forward.sizes;
    return whole_lines(static_cast<std::size_t>(p.batch * p.query_heads * rows_of_totals(c)) * sizeof(float));
}

}  // namespace

DeviceRowTotals::DeviceRowTotals(const BackwardCall &c, void *memory) {
    auto *first = static_cast<char *>(memory);
    const auto rows_at = [&](char *data) {
        return View(reinterpret_cast<float *>(data), {c.forward.sizes.batch, c.forward.sizes.query_heads, rows_of_totals(c)});
    };
    lse = rows_at(first), delta = rows_at(first ? first + bytes_of_totals(c) : nullptr);
}
DeviceRowTotals DeviceRowTotals::rows(std::int64_t first, std::int64_t count) const {
    DeviceRowTotals part = *this;
    for (View *v : {&part.lse, &part.delta}) {
        if (v->data) *v = part_of(*v, 2, first, count);  // without heads there is no memory
        v->extent[2] = count;
    }
    return part;
}
std::size_t DeviceRowTotals::bytes_of(const BackwardCall &c) { return 2 * bytes_of_totals(c); }

namespace {

// Inputs of a kernel of gradients; its buffers and captures outlive it.
struct KernelInputs {
    DeviceAttentionForm form;
    DeviceCaptures captures;
    DeviceAttentionArguments inputs;
    DeviceGradientRowsArguments rows;
    DeviceRowTotalsArguments totals;

    KernelInputs(DeviceCall &call, const BackwardCall &c, const VariantRecord &variant, const DeviceBands &bands,
                 const DeviceRowTotals &of_rows)
        : form(form_on_device(c.forward, variant)), captures(call, c.forward),
          inputs(attention_inputs(call, c.forward, bands, form, captures.list())),
          rows(row_arguments(call, c)), totals{call.buffer(of_rows.lse), call.buffer(of_rows.delta)} {}

    static DeviceGradientRowsArguments row_arguments(DeviceCall &call, const BackwardCall &c) {
        const SdpaProblem &p = c.forward.sizes;
        const ConstView &memory = p.queries ? c.forward.query : c.forward.value;
        auto row = [&](const ConstView &v) {
            ConstView instead = stand_in(memory, p.dtype, {p.batch, p.query_heads, rows_of_totals(c), p.value_dim});
            instead.stride[3] = 1;
            return p.queries ? v : instead;
        };
        const ConstView none = stand_in(memory, DType::f32, {p.batch, p.query_heads, rows_of_totals(c)});
        const void *const grad_out = (p.queries ? c.grad_out : memory).data;
        return {.forward_out = call.buffer(row(c.forward.out)),
                .grad_out = call.buffer(row(c.grad_out)),
                .lse = call.buffer(p.queries ? c.lse : none),
                .has_grad_lse = c.grad_lse.given(),
                .grad_lse = call.buffer(p.queries ? given_or(c.grad_lse, none) : none),
                // For kernels that copy rows with cp.async.
                .grad_out_address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(grad_out))};
    }
};

Status run_kernel(Context::State &context, const BackwardCall &c, const VariantRecord &variant, const DeviceBands &bands,
                  const DeviceRowTotals &totals) {
    const SdpaProblem &p = c.forward.sizes;
    DeviceCall call(variant);
    const KernelInputs in(call, c, variant, bands, totals);
    auto gradient = [&](const View &v, std::int64_t heads, std::int64_t rows, std::int64_t channels) {
        return v.given() && v.extent[2] == rows ? call.buffer(v)
                                                : call.scratch_buffer({p.batch, heads, rows, channels}, p.dtype);
    };
    const std::int64_t queries = rows_of_totals(c), keys = std::max<std::int64_t>(p.keys, 1);
    const DeviceGradientsArguments own{.grad_query = gradient(c.query, p.query_heads, queries, p.head_dim),
                                       .grad_key = gradient(c.key, p.key_heads, keys, p.head_dim),
                                       .grad_value = gradient(c.value, p.key_heads, keys, p.value_dim)};
    in.inputs.append_to(call.args, in.form);
    in.rows.append_to(call.args, in.form);
    in.totals.append_to(call.args, in.form);
    own.append_to(call.args, in.form);
    return queue(context, call);
}

// The gradient of capture n. Each lane has a copy of the gradient, as many as sizes alone say, and copies are summed in order.
Status run_capture(Context::State &context, const BackwardCall &c, std::size_t n, const VariantRecord &variant,
                   const DeviceBands &bands, const DeviceRowTotals &totals) {
    constexpr std::int64_t most_lanes = 16384, most_bytes = std::int64_t{64} << 20;
    const SdpaProblem &p = c.forward.sizes;
    const View &gradient = c.user_captures[n];
    const std::int64_t elements = elements_of(gradient), rows = p.batch * p.query_heads * rows_of_totals(c);
    const std::int64_t copies =
        std::clamp<std::int64_t>(most_bytes / (elements * size_of(DType::f64)), 1, std::min(rows, most_lanes));
    DeviceCall call(variant);
    const KernelInputs in(call, c, variant, bands, totals);
    const View as4 = as_rank4(gradient, false);
    const auto extent = [&](int n) { return static_cast<std::int32_t>(as4.extent[n]); };
    const DeviceCaptureGradientArguments own{.which = static_cast<std::int32_t>(n),
                                             .copies = static_cast<std::int32_t>(copies),
                                             .elements = static_cast<std::int32_t>(elements),
                                             .extent_x = extent(3),
                                             .extent_y = extent(2),
                                             .extent_z = extent(1)};
    const DeviceCaptureSumsArguments outputs{.sums = call.scratch_buffer({elements, copies}, DType::f64),
                                             .grad_capture = call.buffer(as4)};
    in.inputs.append_to(call.args, in.form);
    in.rows.append_to(call.args, in.form);
    own.append_to(call.args, in.form);
    in.totals.append_to(call.args, in.form);
    outputs.append_to(call.args, in.form);
    return queue(context, call);
}

// The gradients of bias and slopes. One that is not wanted is scratch of an element.
Status run_tables(Context::State &context, const BackwardCall &c, const VariantRecord &variant, const DeviceBands &bands,
                  const DeviceRowTotals &totals) {
    const SdpaProblem &p = c.forward.sizes;
    DeviceCall call(variant);
    const KernelInputs in(call, c, variant, bands, totals);
    const bool wants_bias = c.bias.given() && elements_of(c.bias) > 0, wants_slopes = c.alibi_slopes.given();
    const auto extent = [&](int n) { return wants_bias ? static_cast<std::int32_t>(c.bias.extent[n]) : 1; };
    View slopes = c.alibi_slopes;  // (B or 1, Hq, 1, 1)
    slopes.rank = 2;
    const DeviceTableGradientArguments own{.wants_bias = wants_bias,
                                           .wants_slopes = wants_slopes,
                                           .bias_keys = extent(3),
                                           .bias_queries = extent(2),
                                           .bias_heads = extent(1),
                                           .bias_batch = extent(0),
                                           .slope_batch = wants_slopes ? static_cast<std::int32_t>(slopes.extent[0]) : 1};
    const DeviceTableSumsArguments outputs{
        .slope_rows = call.scratch_buffer({p.batch, p.query_heads, rows_of_totals(c)}, DType::f64),
        .grad_slopes = wants_slopes ? call.buffer(slopes) : call.scratch_buffer({1, 1}),
        .grad_bias = wants_bias ? call.buffer(c.bias) : call.scratch_buffer({1, 1, 1, 1}, p.dtype)};
    in.inputs.append_to(call.args, in.form);
    in.rows.append_to(call.args, in.form);
    own.append_to(call.args, in.form);
    in.totals.append_to(call.args, in.form);
    outputs.append_to(call.args, in.form);
    return queue(context, call);
}

}  // namespace

Status run_sinks_on_device(Context::State &context, const BackwardCall &c, const Choice &choice,
                           const DeviceRowTotals &totals) {
    if (!choice.variant) return {};
    View lse = totals.lse, delta = totals.delta;
    lse.extent[2] = delta.extent[2] = c.forward.sizes.queries;
    DeviceCall call(*choice.variant);
    const DeviceSinkGradientArguments arguments{.sinks = call.buffer(c.forward.sinks),
                                                .row_lse = call.buffer(lse),
                                                .row_delta = call.buffer(delta),
                                                .grad_sinks = call.buffer(c.sinks)};
    arguments.append_to(call.args);
    return queue(context, call);
}

Status choose_sinks_on_device(const Context::State &context, const BackwardCall &call, Choice &choice) {
    const std::int64_t heads = call.forward.sizes.query_heads;
    if (!call.sinks.given() || heads == 0) return {};
    const DeviceNeeds of_sinks{ops::sink_gradient, DType::f32, [&] { return text(heads) + " heads"; }};
    return choose_on_device(context, of_sinks, {}, choice);
}

Status choose_backward_on_device(const Context::State &context, const BackwardCall &call, std::string_view variant,
                                 DeviceBackwardChoice &choice) {
    const SdpaProblem &p = call.forward.sizes;
    choice = {};
    if (Status s = choose_sinks_on_device(context, call, choice.sinks); !s.ok()) return s;
    const bool tables = call.bias.given() || call.alibi_slopes.given();
    if (p.batch == 0 || p.query_heads == 0 || (p.queries == 0 && p.keys == 0)) {
        if (!call.alibi_slopes.given() || elements_of(call.alibi_slopes) == 0) return {};
        return unsupported("gradients.alibi_slopes", "of no queries and keys is not computed on a device");
    }
    DeviceNeeds needs = needs_on_device(call.forward);
    // Times of the forward pass, and of one whose queries are the keys: gradients by key and value have tiles of keys.
    SdpaProblem of_keys = p;
    of_keys.queries = p.keys, of_keys.keys = p.queries;
    needs.order = [&](const Runnable &v) { return predicted_device_ns(p, v) + predicted_device_ns(of_keys, v); };
    needs.predicted = false;
    const bool aligned = is_aligned(call.forward.out) && is_aligned(call.grad_out);
    needs.fits = [&](const Runnable &v) { return fits_on_device(v, call.forward) && (v.record->head_dim == 0 || aligned); };
    if (Status s = choose_on_device(context, needs, variant, choice.tensors); !s.ok()) return s;
    needs.fits = [&](const Runnable &v) { return fits_on_device(v, call.forward); };
    if (tables && call.forward.user) return unsupported("gradients.bias", "is not computed on a device for a user's attention");
    if (tables) {
        needs.op = call.capture_op;
        if (Status s = choose_on_device(context, needs, {}, choice.tables); !s.ok()) return s;
    }
    const bool any = std::any_of(call.user_captures.begin(), call.user_captures.end(), [](const View &v) { return v.given(); });
    if (!any) return {};
    const std::string op = std::string(call.forward.user->attention->op) + "_captures";
    needs.op = op_of_user(op);
    return choose_on_device(context, needs, {}, choice.captures);
}

Status run_backward_on_device(Context::State &context, const BackwardCall &call, const DeviceBackwardChoice &choice,
                              const DeviceBands &bands, const DeviceRowTotals &totals) {
    if (!choice.tensors.variant) return {};
    if (Status s = run_kernel(context, call, *choice.tensors.variant, bands, totals); !s.ok()) return s;
    if (choice.tables.variant)
        if (Status s = run_tables(context, call, *choice.tables.variant, bands, totals); !s.ok()) return s;
    for (std::size_t n = 0; n < call.user_captures.size(); n++)
        if (call.user_captures[n].given())
            if (Status s = run_capture(context, call, n, *choice.captures.variant, bands, totals); !s.ok()) return s;
    return {};
}

Status gradients_on_device(Context &caller, const ConstView &query, const ConstView &key, const ConstView &value,
                           const SdpaForward &forward, const SdpaGradients &gradients, const SdpaOptions &options,
                           std::span<const NamedView> more, const std::function<Status(BackwardCall &)> &check) {
    const CallStart start = start_of_call();
    Context::State &context = state_of(caller);
    std::vector<NamedView> all = named_backward_inputs(query, key, value, forward, options);
    all.insert(all.end(), {{"gradients.query", gradients.query},
                           {"gradients.key", gradients.key},
                           {"gradients.value", gradients.value},
                           {"gradients.bias", gradients.bias},
                           {"gradients.alibi_slopes", gradients.alibi_slopes},
                           {"gradients.sinks", gradients.sinks},
                           {"lse", options.lse},
                           {"weights", options.weights}});
    if (Status s = check_places(all, "query"); !s.ok()) return s;
    if (Status s = check_places(more, "query"); !s.ok()) return s;
    if (Status s = check_device_gradients(gradients); !s.ok()) return s;
    if (Status s = check_device_options(options, query.dtype); !s.ok()) return s;
    BackwardCall call;
    if (Status s = check(call); !s.ok()) return s;
    if (Status s = check_32_bit_places(all, kernels_for_a_device); !s.ok()) return s;
    if (Status s = check_32_bit_places(more, kernels_for_a_device); !s.ok()) return s;
    DeviceBands bands;
    if (Status s = find_device_bands(options, call.forward.sizes, bands); !s.ok()) return s;
    DeviceBackwardChoice choice;
    if (Status s = choose_backward_on_device(context, call, options.variant, choice); !s.ok()) return s;
    const DeviceMemory memory(context, DeviceRowTotals::bytes_of(call));
    if (!memory.status().ok()) return memory.status();
    const DeviceRowTotals totals(call, memory.data());
    if (Status s = run_backward_on_device(context, call, choice, bands, totals); !s.ok()) return s;
    if (Status s = run_sinks_on_device(context, call, choice.sinks, totals); !s.ok()) return s;
    record_call(context, choice.tensors, call.forward.op.name, start, [&] { return sizes_text(call.forward.sizes); });
    return {};
}

Status sdpa_backward_on_device(Context &caller, const ConstView &query, const ConstView &key, const ConstView &value,
                               const SdpaForward &forward, const SdpaGradients &gradients, const SdpaOptions &options) {
    return gradients_on_device(caller, query, key, value, forward, gradients, options, {}, [&](BackwardCall &call) {
        Status s = check_sdpa_backward(as_host(query), as_host(key), as_host(value), as_host(forward), as_host(gradients),
                                       checked_on_host(options), call);
        call.forward.op = ops::sdpa_backward, call.capture_op = ops::capture_gradient;
        if (s.ok()) call.forward.scale = scale_of(options, call.forward.sizes.head_dim);
        return s;
    });
}

}  // namespace attune
