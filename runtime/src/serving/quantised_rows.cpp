// SPDX-License-Identifier: MIT
#include "serving/quantised_rows.h"
#include "execution/halide_call.h"
#include "execution/scratch.h"
#include "kernel_arguments.h"
#include "serving/choose_rows.h"
#include <algorithm>

namespace attune {
namespace {

constexpr float no_factor = 1;
constexpr std::int64_t elements_per_thread = 1 << 17;  // that a core makes numbers of in about the time in which another wakes

// Threads that are worth waking to make the numbers of `out`.
int threads_for(const Context::State &context, const View &out) {
    return static_cast<int>(std::clamp<std::int64_t>(elements_of(out) / elements_per_thread, 1, context.threads));
}

HalideBuffer scales_of(const ConstView &v, DType type, const ConstView &rows) {
    return HalideBuffer(entry_of(scales_of_type(v, type, rows), 0));
}

HalideBuffer factors_of(const ConstView &static_scale, std::int64_t heads, std::int64_t channels) {
    if (static_scale.given()) return HalideBuffer(static_scale);
    return HalideBuffer(ConstView(&no_factor, {heads, channels}, {0, 0}));
}

// Query or output (1, Hq, S, D) as (Hkv, group, S, D).
template<typename Data> BasicView<Data> by_key_heads(const BasicView<Data> &v, std::int64_t key_heads) {
    BasicView<Data> w = v;
    const std::int64_t group = v.extent[1] / key_heads;
    w.extent[0] = key_heads, w.stride[0] = group * v.stride[1];
    w.extent[1] = group;
    return w;
}

// Converts queries for a kernel, or its output for the caller.
Status convert_rows(Context::State &context, const Op &op, DType of_caller, const ConstView &x, const ConstView &static_scale,
                    bool by_nibbles, const View &out, std::int64_t key_heads) {
    Choice choice;
    if (Status s = choose_rows(context, op, of_caller, choice); !s.ok()) return s;
    HalideBuffer from(by_key_heads(x, key_heads)), to(by_key_heads(out, key_heads)),
        factor(factors_of(static_scale, key_heads, x.extent[3]));
    const ConvertRowsArguments arguments{.x = from.get(), .factor = factor.get(), .by_nibbles = by_nibbles, .out = to.get()};
    return call_kernel(context, choice.variant->kernel, arguments, 1);
}

}  // namespace

Status check_dequantise(const Context::State &context, DType dtype) {
    Choice choice;
    for (const Op *op : {&ops::dequantise_rows, &ops::queries_to_kernel, &ops::out_of_kernel})
        if (Status s = choose_rows(context, *op, dtype, choice); !s.ok()) return s;
    return {};
}

Status dequantise_rows(Context::State &context, const ConstView &rows, const RowScales &scales, const ConstView &row_shift,
                       const View &out) {
    Choice choice;
    if (Status s = choose_rows(context, ops::dequantise_rows, out.dtype, choice); !s.ok()) return s;
    const bool int8 = rows.dtype == DType::i8;
    const std::int64_t channels = out.extent[3];
    ConstView bytes_of_rows = entry_of(rows, 0), shift = row_shift;
    bytes_of_rows.dtype = DType::u8;
    shift.rank = 1, shift.extent[0] = row_shift.extent[1], shift.stride[0] = row_shift.stride[1];
    HalideBuffer bytes(bytes_of_rows), scale_f32(scales_of(scales.scale, DType::f32, rows)),
        scale_f16(scales_of(scales.scale, DType::f16, rows)), minimum(scales_of(scales.minimum, DType::f16, rows)),
        static_scale(factors_of(scales.static_scale, rows.extent[1], channels)), shifts(shift), to(entry_of(out, 0));
    const DequantiseRowsArguments arguments{.bytes = bytes.get(),
                                            .scale_f32 = scale_f32.get(),
                                            .scale_f16 = scale_f16.get(),
                                            .minimum_f16 = minimum.get(),
                                            .scale_is_f16 = scales.are_f16(),
                                            .static_scale = static_scale.get(),
                                            .has_static_scale = scales.static_scale.given(),
                                            .row_shift = shifts.get(),
                                            .channels_of_int8 = static_cast<std::int32_t>(int8 ? channels : 0),
                                            .groups_of_int4 = static_cast<std::int32_t>(int8 ? 0 : channels / scales.group),
                                            .channels_of_group = static_cast<std::int32_t>(int8 ? 2 : scales.group),
                                            .out = to.get()};
    return call_kernel(context, choice.variant->kernel, arguments, threads_for(context, out));
}

Status widen_rows(Context::State &context, const ConstView &rows, const View &out) {
    constexpr std::int64_t rows_of_task = 256;
    const std::int64_t count = rows.extent[2], tasks_of_head = ceil_div(count, rows_of_task);
    const auto widen = [&](std::int64_t n, int) {
        const std::int64_t head = n / tasks_of_head, first = n % tasks_of_head * rows_of_task,
                           of_task = std::min(rows_of_task, count - first);
        return convert_rows(context, ops::queries_to_kernel, rows.dtype, part_of(part_of(rows, 1, head, 1), 2, first, of_task),
                            {}, false, part_of(part_of(out, 1, head, 1), 2, first, of_task), 1);
    };
    return run_tasks(context, rows.extent[1] * tasks_of_head, threads_for(context, out), widen);
}

const Op &op_of_type(DType type) { return type == DType::i8 ? ops::sdpa_int8 : ops::sdpa_int4; }

const Op *op_of_quantised(const SdpaCall &c) {
    constexpr std::int64_t most_rows = 16;  // four passes over the rows of a key head
    const SdpaProblem &p = c.sizes;
    if (c.key.dtype != c.value.dtype || !is_quantised(c) || p.invariant) return nullptr;
    if (p.queries * (p.query_heads / p.key_heads) > most_rows) return nullptr;
    if (c.bias.given() && p.dtype != DType::f32) return nullptr;  // kernels take a bias of the type of their query
    const Op &op = op_of_type(c.key.dtype);
    return has_variant(op, problem_of_quantised(c, op)) ? &op : nullptr;
}

SdpaProblem problem_of_quantised(const SdpaCall &c, const Op &op, std::string_view forced) {
    SdpaProblem p = c.sizes;
    // The conversion of queries and output takes part in scales of the caller's own.
    const bool converts = c.key_scales.static_scale.given() || c.value_scales.static_scale.given();
    const bool f32_forced = !forced.empty() && find_variant(forced)->dtype == DType::f32;
    if (converts || f32_forced || !has_variant(op, p)) p.dtype = DType::f32;
    return p;
}

Status run_quantised(Context &caller, const SdpaCall &c, const Op &op, AttentionChoice &choice) {
    Context::State &context = state_of(caller);
    const SdpaProblem &p = c.sizes;
    const bool by_nibbles = c.key.dtype == DType::u8;
    SdpaCall call = c;
    call.op = op;
    if (choice.values.variant) call.sizes.dtype = choice.values.variant->dtype;
    const bool converts = call.sizes.dtype != p.dtype || by_nibbles;
    const bool converts_query = converts || c.key_scales.static_scale.given(),
               converts_out = converts || c.value_scales.static_scale.given();
    const std::int64_t rows = p.query_heads * p.queries, of_query = converts_query ? rows * p.head_dim : 0,
                       of_out = converts_out ? rows * p.value_dim : 0;
    const ScratchBlock block(*context.scratch, static_cast<std::size_t>(of_query + of_out) * sizeof(float));
    if (!block.data()) return no_memory();
    auto *memory = static_cast<float *>(block.data());
    const auto dense = [&](float *data, std::int64_t channels) {
        return View(data, {1, p.query_heads, p.queries, channels}, {rows * channels, p.queries * channels, channels, 1});
    };
    if (converts_query) {
        const View query = dense(memory, p.head_dim);
        if (Status s = convert_rows(context, ops::queries_to_kernel, p.dtype, c.query, c.key_scales.static_scale, by_nibbles,
                                    query, p.key_heads);
            !s.ok())
            return s;
        call.query = query;
    }
    if (converts_out) call.out = dense(memory + of_query, p.value_dim);
    if (Status s = run_attention(caller, call, choice); !s.ok() || !converts_out) return s;
    return convert_rows(context, ops::out_of_kernel, p.dtype, call.out, c.value_scales.static_scale, by_nibbles, c.out,
                        p.key_heads);
}

}  // namespace attune
