// SPDX-License-Identifier: MIT
#include "serving/store_rows.h"
#include "kernel_arguments.h"
#include "tensors/checks.h"

namespace attune {
namespace {

// Inputs of both kernels.
struct Rows {
    StepInputs steps;
    HalideBuffer x, places;
    std::int32_t out_rows, out_batch;

    Rows(const StepsOfRows &s, const StepTables &tables, const ConstView &rows, const RowPlaces &to, const View &out)
        : steps(s, tables, rows), x(rows), places(ConstView(&to.data()->row, {rows.extent[0], rows.extent[2], 2})),
          out_rows(static_cast<std::int32_t>(out.extent[2])), out_batch(static_cast<std::int32_t>(out.extent[0])) {}

    // Arguments, which must outlive a list that has them.
    RowsArguments arguments() {
        return {.x = x.get(),
                .places = places.get(),
                .positions = steps.positions.get(),
                .cos = steps.cos.get(),
                .sin = steps.sin.get(),
                .norm_weight = steps.norm_weight.get(),
                .norm_weight_f32 = steps.norm_weight_f32.get(),
                .has_norm = steps.has_norm,
                .weight_is_f32 = steps.weight_is_f32,
                .norm_eps = steps.norm_eps,
                .hadamard_factor = steps.hadamard_factor,
                .halves = steps.halves,
                .neighbours = steps.neighbours,
                .first_rotated = steps.first_rotated,
                .butterflies = steps.butterflies,
                .half_block = steps.half_block,
                .out_rows = out_rows,
                .out_batch = out_batch};
    }
};

// An output, or memory of its extents that the kernel does not write.
HalideBuffer output(const View &v, bool given, DType type, const View &rows) {
    if (given) return HalideBuffer(v);
    return HalideBuffer(not_read(type, {rows.extent[0], rows.extent[1], rows.extent[2], 1}));
}

}  // namespace

Status store_rows(Context::State &context, const VariantRecord &variant, const StepsOfRows &steps, const StepTables &tables,
                  const ConstView &x, const RowPlaces &places, const View &out) {
    Rows rows(steps, tables, x, places, out);
    HalideBuffer stored(out);
    const RowsArguments inputs = rows.arguments();
    const RowsOutArguments output{.out = stored.get()};
    ArgumentList list;
    inputs.append_to(list);
    output.append_to(list);
    return call_kernel(context, variant.kernel, list.data(), threads_of_rows(context, x));
}

Status store_quantised_rows(Context::State &context, const VariantRecord &variant, const StepsOfRows &steps,
                            const StepTables &tables, const ConstView &x, const RowPlaces &places, const QuantisedOut &out) {
    const View &r = out.rows;
    const bool int8 = r.dtype == DType::i8, static_scale = out.static_scale.given();
    const bool f16 = int8 && !static_scale && out.scale.dtype == DType::f16;
    Rows rows(steps, tables, x, places, r);
    HalideBuffer given_scale(static_scale ? out.static_scale : not_read(DType::f32, {x.extent[1], x.extent[3]}));
    HalideBuffer as_int8 = output(r, int8, DType::i8, r), as_int4 = output(r, !int8, DType::u8, r);
    HalideBuffer scale_f32 = output(out.scale, int8 && !static_scale && !f16, DType::f32, r);
    HalideBuffer scale_f16 = output(out.scale, !int8 || f16, DType::f16, r);
    HalideBuffer minimum = output(out.minimum, !int8, DType::f16, r);
    const std::int64_t channels = x.extent[3];
    const RowsArguments inputs = rows.arguments();
    const QuantisedRowsArguments outputs{.static_scale = given_scale.get(),
                                         .has_static_scale = static_scale,
                                         .scale_is_f16 = f16,
                                         .channels_of_int8 = static_cast<std::int32_t>(int8 ? channels : 0),
                                         .groups_of_int4 = static_cast<std::int32_t>(int8 ? 0 : channels / out.group),
                                         .channels_of_group = static_cast<std::int32_t>(int8 ? 2 : out.group),
                                         .int8 = as_int8.get(),
                                         .int4 = as_int4.get(),
                                         .scale_f32 = scale_f32.get(),
                                         .scale_f16 = scale_f16.get(),
                                         .minimum_f16 = minimum.get()};
    ArgumentList list;
    inputs.append_to(list);
    outputs.append_to(list);
    return call_kernel(context, variant.kernel, list.data(), threads_of_rows(context, x));
}

}  // namespace attune
