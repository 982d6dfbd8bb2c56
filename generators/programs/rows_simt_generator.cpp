// SPDX-License-Identifier: MIT
// Wiring only: the steps on rows on a device. Where rows go is computed from the caller's own arrays there, whose values nobody
// has checked: rows whose place is not in the output are not stored.
#include "generators/math/bf16_bits.h"
#include "schedules/transform_rows/simt_schedules.h"

namespace {
using namespace Halide;
enum class Schedule { simt };

class RowsSimt : public Halide::Generator<RowsSimt> {
public:
    GeneratorParam<Schedule> schedule_name{"schedule", Schedule::simt, {{"simt", Schedule::simt}}};
    GeneratorParam<Type> dtype{"dtype", Float(32)};
    GeneratorParam<bool> quantised{"quantised", false};
    GeneratorParam<int> lanes{"lanes", 32, 16, 1024};
    GeneratorParam<int> channels{"channels", 256, 32, 8192};  // at most so many

    Input<Buffer<void, 4>> x{"x"};  // (d, t, h, b)
    // Row t of entry b goes to a slot of all rows of the output; or, in entry b, behind its held rows.
    Input<bool> has_slots{"has_slots"}, has_held_rows{"has_held_rows"}, has_new_rows{"has_new_rows"};
    Input<bool> has_positions{"has_positions"};
    Input<Buffer<int64_t, 2>> slots{"slots"};                                // (t, b)
    Input<Buffer<int32_t, 1>> held_rows{"held_rows"}, new_rows{"new_rows"};  // (b)
    Input<int32_t> first_row{"first_row"};                                   // number of the first row of x in its entry
    Input<Buffer<int32_t, 2>> positions{"positions"};                        // (t, b)
    Input<Buffer<float, 2>> cos{"cos"}, sin{"sin"};                          // (k, position)
    Input<Buffer<void, 2>> norm_weight{"norm_weight"};                       // (d, h)
    Input<Buffer<float, 2>> norm_weight_f32{"norm_weight_f32"};              // (d, h)
    Input<bool> has_norm{"has_norm"}, weight_is_f32{"weight_is_f32"};
    Input<float> norm_eps{"norm_eps"}, hadamard_factor{"hadamard_factor"};
    Input<int32_t> halves{"halves"}, neighbours{"neighbours"}, first_rotated{"first_rotated"};
    Input<int32_t> butterflies{"butterflies"}, half_block{"half_block"};
    Input<int32_t> out_rows{"out_rows"}, out_batch{"out_batch"};  // extents of outputs

    void configure() {
        const Type held = attune::held_type(dtype);
        x.set_type(held), norm_weight.set_type(held);
        if (!quantised) {
            out = add_output<Func>("out", held, 4);  // (d, i, h, p)
            return;
        }
        static_scale = add_input<Buffer<>>("static_scale", Float(32), 2);  // (d, h)
        has_static_scale = add_input<bool>("has_static_scale"), scale_is_f16 = add_input<bool>("scale_is_f16");
        channels_of_int8 = add_input<int32_t>("channels_of_int8"), groups_of_int4 = add_input<int32_t>("groups_of_int4");
        channels_of_group = add_input<int32_t>("channels_of_group");
        int8 = add_output<Func>("int8", Int(8), 4), int4 = add_output<Func>("int4", UInt(8), 4);  // (d, i, h, p)
        scale_f32 = add_output<Func>("scale_f32", Float(32), 4);                                  // (g, i, h, p)
        scale_f16 = add_output<Func>("scale_f16", Float(16), 4), minimum_f16 = add_output<Func>("minimum_f16", Float(16), 4);
    }

    void generate() {
        const Var d("d"), t("t"), h("h"), b("b");
        Func rows("rows"), weight("weight");
        rows(d, t, h, b) = attune::widened(x(d, t, h, b));
        weight(d, h) = attune::widened(norm_weight(d, h));
        attune::RowSteps steps;
        steps.has_stand_ins = true, steps.most_channels = channels;
        steps.has_norm = has_norm, steps.eps = norm_eps, steps.weight_is_f32 = weight_is_f32;
        steps.weight = weight, steps.weight_f32 = norm_weight_f32;
        steps.cos = cos, steps.sin = sin, steps.positions = position_of_rows(), steps.table_positions = cos.dim(1).extent();
        steps.halves = halves, steps.neighbours = neighbours, steps.first_rotated = first_rotated;
        steps.butterflies = butterflies, steps.half_block = half_block, steps.hadamard_factor = hadamard_factor;
        const attune::TransformRowsInputs in{
            rows,
            place_of_rows(),
            unsafe_promise_clamped(x.dim(0).extent(), 1, channels),
            x.dim(1).extent(),
            x.dim(2).extent(),
            x.dim(3).extent(),
            [this](const Expr &channel) { return attune::stored(attune::held_type(dtype), channel); }};
        if (!quantised) {
            plain = attune::transform_rows_stages(in, steps, out_rows, out_batch);
            *out = plain.out.out;
            return;
        }
        const attune::Quantisation q{*channels_of_int8, *groups_of_int4,   *channels_of_group,
                                     *static_scale,     *has_static_scale, *scale_is_f16};
        quantising = attune::quantise_rows_stages(in, steps, q, out_rows, out_batch);
        *int8 = quantising.int8.out, *int4 = quantising.int4.out, *scale_f32 = quantising.scale_f32.out;
        *scale_f16 = quantising.scale_f16.out, *minimum_f16 = quantising.minimum_f16.out;
    }

    void schedule() {
        for (int n = 0; n < 4; n++) x.dim(n).set_min(0);
        for (int n = 0; n < 2; n++) {
            for (auto *in : {&cos, &sin, &norm_weight_f32}) in->dim(n).set_min(0);
            slots.dim(n).set_min(0), positions.dim(n).set_min(0), norm_weight.dim(n).set_min(0);
            if (quantised) static_scale->dim(n).set_min(0);
        }
        for (auto *in : {&held_rows, &new_rows}) in->dim(0).set_min(0).set_stride(Expr());
        slots.dim(0).set_stride(Expr()), positions.dim(0).set_stride(Expr());
        norm_weight.dim(0).set_stride(Expr()), norm_weight_f32.dim(0).set_stride(Expr());
        cos.dim(0).set_stride(Expr()), sin.dim(0).set_stride(Expr());
        if (quantised) static_scale->dim(0).set_stride(Expr());
        for (auto *o : {out, int8, int4, scale_f32, scale_f16, minimum_f16})
            if (o)
                for (int n = 0; n < 4; n++) static_cast<Func>(*o).output_buffer().dim(n).set_min(0);
        if (quantised)
            attune::schedule_rows_simt(quantising, {lanes, channels});
        else
            attune::schedule_rows_simt(plain, {lanes, channels});
        const attune::RowTransform &steps = quantised ? static_cast<attune::RowTransform &>(quantising) : plain;
        attune::lower(get_pipeline(), attune::passes_of_rows(steps, target), target);
    }

private:
    Input<Buffer<>> *static_scale = nullptr;
    Input<bool> *has_static_scale = nullptr, *scale_is_f16 = nullptr;
    Input<int32_t> *channels_of_int8 = nullptr, *groups_of_int4 = nullptr, *channels_of_group = nullptr;
    Output<Func> *out = nullptr, *int8 = nullptr, *int4 = nullptr, *scale_f32 = nullptr, *scale_f16 = nullptr,
                 *minimum_f16 = nullptr;
    attune::TransformRowsStages plain;
    attune::QuantiseRowsStages quantising;

    // Behind the held rows of its entry.
    Expr in_order(const Var &t, const Var &b) { return select(has_held_rows, held_rows(b), 0) + first_row + t; }

    Func position_of_rows() {
        const Var t("t"), b("b");
        Func f("position_of_row");
        f(t, b) = clamp(select(has_positions, positions(t, b), in_order(t, b)), 0, cos.dim(1).extent() - 1);
        return f;
    }
    // TransformRowsInputs::places.
    Func place_of_rows() {
        const Var n("n"), t("t"), b("b");
        Func f("place_of_row");
        const Expr rows = select(has_slots, out_rows * out_batch, out_rows);
        const Expr slot = select(has_slots, slots(t, b), cast<int64_t>(in_order(t, b)));
        const Expr is_stored = slot >= 0 && slot < cast<int64_t>(rows) && (!has_new_rows || first_row + t < new_rows(b));
        const Expr number = cast<uint32_t>(select(is_stored, cast<int32_t>(slot), 0)), of_entry = cast<uint32_t>(out_rows);
        f(n, t, b) = select(n == 0, select(is_stored, cast<int32_t>(number % of_entry), -1),
                            select(has_slots, cast<int32_t>(number / of_entry), b));
        return f;
    }
};
}  // namespace

HALIDE_REGISTER_GENERATOR(RowsSimt, rows_simt)
