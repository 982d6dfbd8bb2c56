// SPDX-License-Identifier: MIT
#include "serving/rows_device.h"
#include "kernel_arguments.h"
#include "tensors/checks.h"
#include <algorithm>
#include <cmath>

namespace attune {
namespace {

constexpr std::int64_t blocks_at_most = 65535;  // in the second and third dimension of a CUDA grid

// Rows [first, first + count) of each entry, which a kernel takes.
struct Part {
    std::int64_t first, count;
};
ConstView part_of_rows(const ConstView &v, const Part &part) { return v.given() ? part_of(v, 1, part.first, part.count) : v; }

DeviceRowsArguments row_arguments(DeviceCall &call, const DeviceRows &rows, const Part &part, const View &out) {
    const StepsOfRows &s = rows.steps;
    const ConstView x = part_of(rows.x, 2, part.first, part.count);
    const std::int64_t batch = x.extent[0];
    const auto given = [&](const ConstView &v, DType type, std::initializer_list<std::int64_t> extents) {
        return call.buffer(given_or(v, stand_in(x, type, extents)));
    };
    const auto weight_of = [&](DType type) {
        const ConstView none;
        return given(s.norm_weight.dtype == type ? s.norm_weight : none, type, {x.extent[1], x.extent[3]});
    };
    return {.x = call.buffer(x),
            .has_slots = rows.slots.given(),
            .has_held_rows = rows.held_rows.given(),
            .has_new_rows = rows.new_rows.given(),
            .has_positions = s.positions.given(),
            .slots = given(part_of_rows(rows.slots, part), DType::i64, {batch, part.count}),
            .held_rows = given(rows.held_rows, DType::i32, {batch}),
            .new_rows = given(rows.new_rows, DType::i32, {batch}),
            .first_row = static_cast<std::int32_t>(part.first),
            .positions = given(part_of_rows(s.positions, part), DType::i32, {batch, part.count}),
            .cos = given(s.rope.cos, DType::f32, {1, 1}),
            .sin = given(s.rope.sin, DType::f32, {1, 1}),
            .norm_weight = weight_of(x.dtype),
            .norm_weight_f32 = weight_of(DType::f32),
            .has_norm = s.norm_weight.given(),
            .weight_is_f32 = s.norm_weight.dtype == DType::f32,
            .norm_eps = static_cast<float>(s.norm_eps),
            .hadamard_factor = static_cast<float>(hadamard_factor(s)),
            .halves = static_cast<std::int32_t>(s.halves),
            .neighbours = static_cast<std::int32_t>(s.neighbours),
            .first_rotated = static_cast<std::int32_t>(s.rope.offset),
            .butterflies = s.butterflies,
            .half_block = half_block(s),
            .out_rows = static_cast<std::int32_t>(out.extent[2]),
            .out_batch = static_cast<std::int32_t>(out.extent[0])};
}

// Calls run(part) for parts of the rows of which a grid has a block each.
template<typename Run> Status for_parts(const DeviceRows &rows, const Run &run) {
    const std::int64_t all = rows.x.extent[2];
    for (std::int64_t first = 0; first < all; first += blocks_at_most)
        if (Status s = run(Part{first, std::min(all - first, blocks_at_most)}); !s.ok()) return s;
    return {};
}

}  // namespace

Status check_rows_on_device(std::string_view name, const std::string &prefix, const ConstView &x, const StepsOfRows &steps,
                            std::span<const NamedView> all) {
    if (x.dtype == DType::f64) return unsupported(name, "there are no kernels for f64 on a device");
    if (steps.rope.base != 0)
        return unsupported(prefix + "rope.base", "tensors on a device take tables of rope_tables(), on the device as well");
    if (x.extent[0] > blocks_at_most)
        return unsupported(name, "a batch of " + text(x.extent[0]) + ", more than " + text(blocks_at_most) + " on a device");
    return check_32_bit_places(all, kernels_for_a_device);
}

Status choose_rows_on_device(const Context::State &context, const Op &op, const DeviceRows &rows, Choice &choice) {
    if (elements_of(rows.x) == 0) {
        choice = {nullptr, "no rows"};
        return {};
    }
    const std::int64_t channels = rows.x.extent[3];
    const DeviceNeeds needs{.op = op,
                            .dtype = rows.x.dtype,
                            .sizes = [&] { return "rows of " + text(channels) + " channels"; },
                            .fits = [&](const Runnable &v) { return channels <= v.channels; },
                            .order = [](const Runnable &v) { return static_cast<double>(v.channels); }};
    return choose_on_device(context, needs, {}, choice);
}

Status store_rows_on_device(Context::State &context, const VariantRecord &variant, const DeviceRows &rows, const View &out) {
    return for_parts(rows, [&](const Part &part) {
        DeviceCall call(variant);
        // Rows that have neither slots nor held ones before them keep their numbers.
        const bool in_order = !rows.slots.given() && !rows.held_rows.given();
        const View stored = in_order ? part_of(out, 2, part.first, part.count) : out;
        DeviceRowsArguments inputs = row_arguments(call, rows, part, stored);
        if (in_order) inputs.first_row = 0;
        const DeviceRowsOutArguments output{.out = call.buffer(stored)};
        inputs.append_to(call.args);
        output.append_to(call.args);
        return queue(context, call);
    });
}

Status store_quantised_rows_on_device(Context::State &context, const VariantRecord &variant, const DeviceRows &rows,
                                      const QuantisedOut &out) {
    const View &r = out.rows;
    const std::int64_t channels = rows.x.extent[3];
    const bool int8 = r.dtype == DType::i8, static_scale = out.static_scale.given();
    const bool f16 = int8 && !static_scale && out.scale.dtype == DType::f16;
    return for_parts(rows, [&](const Part &part) {
        DeviceCall call(variant);
        // An output that is not written has the extents of the rows.
        const auto output = [&](const View &v, bool given, DType type) {
            ConstView none = stand_in(rows.x, type, {r.extent[0], r.extent[1], r.extent[2], 1});
            none.stride[3] = 1;
            return call.buffer(given ? v : none);
        };
        const ConstView no_scale = stand_in(rows.x, DType::f32, {rows.x.extent[1], channels});
        const DeviceRowsArguments inputs = row_arguments(call, rows, part, r);
        const DeviceQuantisedRowsArguments outputs{.static_scale = call.buffer(given_or(out.static_scale, no_scale)),
                                                   .has_static_scale = static_scale,
                                                   .scale_is_f16 = f16,
                                                   .channels_of_int8 = static_cast<std::int32_t>(int8 ? channels : 0),
                                                   .groups_of_int4 = static_cast<std::int32_t>(int8 ? 0 : channels / out.group),
                                                   .channels_of_group = static_cast<std::int32_t>(int8 ? 2 : out.group),
                                                   .int8 = output(r, int8, DType::i8),
                                                   .int4 = output(r, !int8, DType::u8),
                                                   .scale_f32 = output(out.scale, int8 && !static_scale && !f16, DType::f32),
                                                   .scale_f16 = output(out.scale, !int8 || f16, DType::f16),
                                                   .minimum_f16 = output(out.minimum, !int8, DType::f16)};
        inputs.append_to(call.args);
        outputs.append_to(call.args);
        return queue(context, call);
    });
}

}  // namespace attune
