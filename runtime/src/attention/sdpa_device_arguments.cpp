// SPDX-License-Identifier: MIT
// Arguments of kernels of attention for a device.
#include "attention/dropout_threshold.h"
#include "attention/sdpa_device_call.h"
#include "user_attention/user_call.h"
#include <bit>

namespace attune {

DeviceAttentionForm form_on_device(const SdpaCall &c, const VariantRecord &variant) {
    using Form = DeviceAttentionForm;
    Form form{Form::Kind::plain, Form::Pair::dot_product, Form::Schedule::simt, Form::Cache::dense, Form::User::none};
    if (c.user) form.user = c.user->attention->has_mask ? Form::User::masked : Form::User::unmasked;
    if (variant.kind_id == Kind::scored) form.kind = Form::Kind::scored;
    if (variant.kind_id == Kind::training) form.kind = Form::Kind::training;
    if (variant.kind_id == Kind::weights) form.kind = Form::Kind::weights;
    if (c.device_pages) form.cache = Form::Cache::pages;
    if (c.op.id == OpId::sdpa_int8) form.cache = Form::Cache::int8;
    if (c.op.id == OpId::sdpa_int4) form.cache = Form::Cache::int4;
    if (c.op.id == OpId::additive) form.pair = Form::Pair::additive;
    if (multiplies_matrices(variant))
        form.schedule = cuts_keys(variant) ? Form::Schedule::mma_split : Form::Schedule::mma;
    else if (cuts_keys(variant))
        form.schedule = Form::Schedule::split;
    return form;
}

namespace {

// Scales of quantised rows, (1, H, rows, channels), for a kernel that finds that of a channel: strides are 0 along what shares
// a scale. Those of another type, and of no rows, are stand-ins.
ConstView no_scales(const ConstView &rows, const ConstView &memory, DType type = DType::f16) {
    return stand_in(memory, type, {1, rows.extent[1], rows.extent[2], rows.extent[3]});
}
ConstView device_scales(const RowScales &scales, DType type, const ConstView &rows, const ConstView &memory) {
    ConstView v = no_scales(rows, memory, type);
    if (scales.static_scale.given()) {
        if (type != DType::f32) return v;
        v.data = scales.static_scale.data;
        v.stride[1] = scales.static_scale.stride[0], v.stride[3] = scales.static_scale.stride[1];
    } else if (scales.scale.given() && scales.scale.dtype == type) {
        v = scales.scale;
        if (v.extent[3] == 1) v.extent[3] = rows.extent[3], v.stride[3] = 0;
    }
    return v;
}
// Groups of int4 have 32 or 64 channels, or all.
std::int32_t group_bits(const RowScales &scales, std::int64_t channels) {
    constexpr std::int32_t whole_row = 31;
    if (scales.group == 0 || scales.group == channels) return whole_row;
    return std::countr_zero(static_cast<std::uint64_t>(scales.group));
}

}  // namespace

DeviceAttentionArguments attention_inputs(DeviceCall &call, const SdpaCall &c, const DeviceBands &bands,
                                          const DeviceAttentionForm &form, const CaptureList &captures) {
    const SdpaProblem &p = c.sizes;
    const ConstView &memory = p.queries ? c.query : c.key;
    auto instead = [&](DType type, std::initializer_list<std::int64_t> extents) { return stand_in(memory, type, extents); };
    auto row_instead = [&](const ConstView &of) {
        ConstView row = instead(of.dtype, {p.batch, of.extent[1], 1, of.extent[3]});
        row.stride[3] = 1;
        return row;
    };
    const bool none = p.queries == 0 || p.keys == 0;
    auto table = [&](const ConstView &v, DType type) {
        const ConstView of_a_pair =
            instead(type, {p.batch, p.query_heads, std::max<std::int64_t>(p.queries, 1), std::max<std::int64_t>(p.keys, 1)});
        if (none) return of_a_pair;
        ConstView t = given_or(v, of_a_pair);
        t.extent[3] = p.keys;
        return t;
    };
    DeviceBands b = bands;
    if (none) b.length = 0, b.lengths = {};
    ConstView offsets = given_or(b.offsets, instead(DType::i32, {p.batch, 1}));
    offsets.rank = 1;
    const ConstView query = p.queries ? c.query : row_instead(c.query);
    const ConstView key = p.keys ? c.key : row_instead(c.key), value = p.keys ? c.value : row_instead(c.value);
    // Buffers that the kernel has not are null.
    const bool scored = form.kind != DeviceAttentionForm::Kind::plain,
               additive = form.pair == DeviceAttentionForm::Pair::additive;
    auto only_if = [&](bool wanted, const ConstView &v) -> halide_buffer_t * { return wanted ? call.buffer(v) : nullptr; };
    auto address = [](const ConstView &v) { return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(v.data)); };
    // Without rows the stand-ins are one page of one row.
    const bool paged = c.device_pages != nullptr, int8 = form.cache == DeviceAttentionForm::Cache::int8,
               int4 = form.cache == DeviceAttentionForm::Cache::int4;
    const double dropped = p.dropout ? c.dropout.probability : 0;
    const DevicePages in_pages = paged && !none ? *c.device_pages : DevicePages{{}, 1, 0, 1};
    const ConstView lengths = given_or(b.lengths, instead(DType::i32, {p.batch, std::max<std::int64_t>(p.queries, 1)}));
    return {.query = call.buffer(query),
            .key = call.buffer(key),
            .value = call.buffer(value),
            .scale = static_cast<float>(c.scale),
            .band_begin = b.begin,
            .band_end = b.end,
            .offset = b.offset,
            .length = b.length,
            .has_offsets = b.offsets.given(),
            .has_lengths = b.lengths.given(),
            .offsets = call.buffer(offsets),
            .lengths = call.buffer(lengths),
            .block_table = only_if(paged, given_or(in_pages.block_table, instead(DType::i32, {p.batch, 1}))),
            .keys = none ? 1 : static_cast<std::int32_t>(p.keys),
            .pages = in_pages.pages,
            .page_bits = in_pages.bits,
            .page_stride = in_pages.stride,
            .key_scale_f16 = only_if(int8 || int4, device_scales(c.key_scales, DType::f16, key, memory)),
            .value_scale_f16 = only_if(int8 || int4, device_scales(c.value_scales, DType::f16, value, memory)),
            .key_scale_f32 = only_if(int8, device_scales(c.key_scales, DType::f32, key, memory)),
            .value_scale_f32 = only_if(int8, device_scales(c.value_scales, DType::f32, value, memory)),
            .key_scale_is_f16 = c.key_scales.are_f16(),
            .value_scale_is_f16 = c.value_scales.are_f16(),
            .key_minimum = only_if(int4, given_or(c.key_scales.minimum, no_scales(key, memory))),
            .value_minimum = only_if(int4, given_or(c.value_scales.minimum, no_scales(value, memory))),
            .key_group_bits = group_bits(c.key_scales, p.head_dim),
            .value_group_bits = group_bits(c.value_scales, p.value_dim),
            .has_pair_weight = c.pair_weight.given(),
            .pair_weight = only_if(additive, given_or(c.pair_weight, instead(DType::f32, {p.head_dim}))),
            .pair_bias = static_cast<float>(c.pair_bias),
            // Addresses for kernels that copy rows with cp.async.
            .query_address = address(query),
            .key_address = address(key),
            .value_address = address(value),
            .softcap = static_cast<float>(c.softcap),
            .has_bias = c.bias.given(),
            .bias = only_if(scored, table(c.bias, p.dtype)),
            .has_alibi = c.slopes.given(),
            .slopes = only_if(scored, given_or(c.slopes, instead(DType::f32, {p.batch, p.query_heads}))),
            .has_mask = c.mask.given(),
            .mask = only_if(scored, table(c.mask, DType::boolean)),
            .has_sinks = c.sinks.given(),
            .sinks = only_if(scored, given_or(c.sinks, instead(DType::f32, {p.query_heads}))),
            .seed_low = static_cast<std::uint32_t>(c.dropout.seed),
            .seed_high = static_cast<std::uint32_t>(c.dropout.seed >> 32),
            .dropout_offset = c.dropout.offset,
            .first_query = c.dropout.first_query,
            .first_key = c.dropout.first_key,
            .first_head = c.first_head,
            .counted_heads = counted_heads(c.dropout, p.query_heads),
            .threshold = static_cast<std::uint32_t>(dropout_threshold(dropped)),
            .keep_scale = static_cast<float>(1 / (1 - dropped)),
            .captures = captures};
}

}  // namespace attune
