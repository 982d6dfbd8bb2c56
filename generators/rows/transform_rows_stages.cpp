// SPDX-License-Identifier: MIT
#include "generators/rows/transform_rows_stages.h"
#include "generators/math/accumulator.h"
#include "generators/math/narrowed.h"
#include "generators/math/nearest.h"
#include <functional>

namespace attune {
using namespace Halide;
using Halide::Internal::make_const;

namespace {

constexpr float largest_f16 = 65504;

void add_steps(RowTransform &r, const TransformRowsInputs &in, const RowSteps &steps, Type sums) {
    const RowVars &v = r.vars;
    const Var d = v.d, t = v.t, h = v.h, b = v.b;
    r.weight = row_weight(steps, v, sums, in.channels, in.heads);
    r.norm = row_norm(steps, v, in.x, sums, in.channels);
    r.normed = Func("normed");
    r.normed(d, t, h, b) = strict_float(cast(sums, in.x(d, t, h, b)) * r.norm.factor(t, h, b) * r.weight.weight(d, h));
    r.mixed = Func("mixed");
    r.mixed(d, v.s, t, h, b) = undef(sums);
    r.rope = rotate_pairs(
        steps, r.mixed, v, in.channels,
        [&](Expr at) {
            return std::vector<Expr>{steps.channel_place(at), 0, t, h, b};
        },
        [&](Expr at) { return Expr(r.normed(at, t, h, b)); });
    r.butterfly = mix_blocks(steps, r.mixed, v, in.channels);
}

// Where rows go.
struct Places {
    const TransformRowsInputs &in;
    Expr rows, batch;  // of the output

    // An output of numbers of a row, in `loops` of these extents; element(numbers of the loops, h, t, b) says where in its row
    // and what. Loops over rows have the same names in all outputs, so that a schedule may join them.
    struct Element {
        Expr place, value;
    };
    template<typename F> StoreLoops store(const std::string &name, const std::vector<Expr> &extents, const F &element) const {
        std::vector<Internal::ReductionVariable> loops;
        for (std::size_t n = 0; n < extents.size(); n++) loops.push_back({name + std::to_string(n), 0, extents[n]});
        const int row = static_cast<int>(extents.size());
        loops.push_back({"head_of_row", 0, in.heads});
        loops.push_back({"row_of_batch", 0, in.rows});
        loops.push_back({"batch_of_row", 0, in.batch});
        RDom r{Internal::ReductionDomain(loops)};
        const Expr h = r[row], t = r[row + 1], b = r[row + 2];
        // min(): a task of a fixed number of rows asks before it knows that the row exists.
        const Expr to_row = in.places(0, min(t, in.rows - 1), b), to_batch = in.places(1, min(t, in.rows - 1), b);
        r.where(to_row >= 0);
        std::vector<Expr> numbers;
        for (int n = 0; n < row; n++) numbers.push_back(r[n]);
        const Element e = element(numbers, h, t, b);
        StoreLoops s{Func(name + "_stage"), r[0], r[row], r[row + 1], r[row + 2], r[row - 1]};
        s.out(Var("d"), Var("i"), Var("h"), Var("p")) = undef(e.value.type());
        s.out(e.place, unsafe_promise_clamped(to_row, 0, rows - 1), h, unsafe_promise_clamped(to_batch, 0, batch - 1)) =
            e.value;
        return s;
    }
};

// An expression of a row's variables at other ones.
Expr at_row(const Expr &x, const RowVars &v, const Expr &t, const Expr &h, const Expr &b) {
    return substitute({{v.t.name(), t}, {v.h.name(), h}, {v.b.name(), b}}, x);
}

Expr f32_of_f16(const Expr &x) { return cast<float>(x); }
Expr f16_of(const Expr &x) { return narrowed(Float(16), clamp(x, -largest_f16, largest_f16)); }

using Channel = std::function<Expr(const Expr &)>;  // of a row after its steps
using Numbers = std::vector<Expr>;                  // of the loops of an output

// Numbers beyond the range of q take its ends. A scale of 0 has q = 0.
Expr quantised(const Expr &x, const Expr &scale, const Expr &least, const Expr &most) {
    const Expr ratio = strict_float(x / select(scale == 0.f, 1.f, scale));
    return select(scale == 0.f, 0.f, nearest(strict_float(clamp(ratio, least, most))));
}

// Scale of int8 rows: the largest magnitude of a row over 127, or the caller's of each channel.
void add_scale(QuantiseRowsStages &s, const TransformRowsInputs &in, const Quantisation &q, bool has_stand_ins,
               const Channel &channel) {
    const RowVars &v = s.vars;
    const Var e = v.e, t = v.t, h = v.h, b = v.b;
    const int width = RowSum::places;
    s.static_scale = Func("static_scale_stage");
    if (has_stand_ins) {
        s.static_scale(v.d, h) = select(q.has_static_scale, q.static_scale(v.d, h), 1.f);
    } else {
        s.static_scale(v.d, h) = 1.f;
        RDom given(0, in.channels, 0, in.heads, "static_scale");
        given.where(q.has_static_scale);
        s.static_scale(given.x, given.y) = q.static_scale(given.x, given.y);
        s.static_channel = given.x;
    }

    // Past the end of a row its last channel counts again.
    RDom block(0, select(q.has_static_scale, 0, (q.channels_of_int8 + width - 1) / width), "magnitude_block");
    s.magnitudes = Func("magnitudes");
    s.magnitudes(e, t, h, b) = 0.f;
    s.magnitudes(e, t, h, b) = max(s.magnitudes(e, t, h, b), abs(channel(min(likely(block * width + e), in.channels - 1))));
    s.magnitude_block = block;
    const Halves largest = by_halves(s.magnitudes, {t, h, b}, [](Expr x, Expr y) { return max(x, y); });
    const Expr exact = strict_float(largest.result / 127.f);
    s.scale = Func("scale");
    s.scale(t, h, b) = select(q.scale_is_f16, f32_of_f16(f16_of(exact)), exact);
    s.halves_of_magnitudes = largest.halves;
}

// Minimum and step of each group of int4 channels: 15 steps from the lowest channel to the highest.
void add_groups(QuantiseRowsStages &s, const Quantisation &q, const Channel &channel) {
    const RowVars &v = s.vars;
    const Var e = v.e, t = v.t, h = v.h, b = v.b, g = s.g;
    const int width = RowSum::places;
    const Expr group_blocks = (q.channels_of_group + width - 1) / width;
    RDom lows(0, group_blocks, "lowest_block"), highs(0, group_blocks, "highest_block");
    // Past the end of a group its last channel counts again.
    const auto of_group = [&](const RVar &number) {
        return channel(g * q.channels_of_group + min(likely(number * width + e), q.channels_of_group - 1));
    };
    s.lowest = Func("lowest"), s.highest = Func("highest");
    s.lowest(e, g, t, h, b) = Float(32).max();
    s.lowest(e, g, t, h, b) = min(s.lowest(e, g, t, h, b), of_group(lows.x));
    s.highest(e, g, t, h, b) = Float(32).min();
    s.highest(e, g, t, h, b) = max(s.highest(e, g, t, h, b), of_group(highs.x));
    s.lowest_block = lows.x, s.highest_block = highs.x;
    const Halves least = by_halves(s.lowest, {g, t, h, b}, [](Expr x, Expr y) { return min(x, y); });
    const Halves most = by_halves(s.highest, {g, t, h, b}, [](Expr x, Expr y) { return max(x, y); });
    s.low = Func("low"), s.high = Func("high");
    s.low(g, t, h, b) = least.result;
    s.high(g, t, h, b) = most.result;
    s.halves_of_lowest = least.halves, s.halves_of_highest = most.halves;
    s.minimum = Func("minimum"), s.step = Func("step");
    s.minimum(g, t, h, b) = f16_of(s.low(g, t, h, b));
    s.step(g, t, h, b) = f16_of(strict_float((s.high(g, t, h, b) - s.low(g, t, h, b)) / 15.f));
}

// Stores of quantised channels: a byte each of int8, two to a byte of int4.
void store_channels(QuantiseRowsStages &s, const Places &places, const RowSteps &steps, const Quantisation &q,
                    const Channel &channel) {
    s.int8 = places.store("int8", {q.channels_of_int8}, [&](const Numbers &d, Expr h, Expr t, Expr b) {
        const Expr scale = select(q.has_static_scale, s.static_scale(d[0], h), s.scale(t, h, b));
        return Places::Element{d[0], cast<int8_t>(quantised(at_row(channel(d[0]), s.vars, t, h, b), scale, -127.f, 127.f))};
    });
    const Expr bytes = q.channels_of_group / 2;  // of a group
    s.int4 = places.store("int4", {bytes, q.groups_of_int4}, [&](const Numbers &n, Expr h, Expr t, Expr b) {
        const Expr g = steps.channel_place(n[1], least_group);
        const Expr low = f32_of_f16(s.minimum(g, t, h, b)), step = f32_of_f16(s.step(g, t, h, b));
        const auto four_bits = [&](int odd) {
            const Expr x = at_row(channel(n[1] * q.channels_of_group + 2 * n[0] + odd), s.vars, t, h, b);
            return cast<uint8_t>(quantised(strict_float(x - low), step, 0.f, 15.f));
        };
        return Places::Element{n[1] * bytes + n[0], four_bits(0) | four_bits(1) << 4};
    });
}

// Stores of scales: of int8 rows in f32 or f16, of int4 groups, with their minima, in f16.
void store_scales(QuantiseRowsStages &s, const Places &places, const RowSteps &steps, const Quantisation &q) {
    const Expr dynamic = q.channels_of_int8 > 0 && !q.has_static_scale;
    const Expr f32_of_int8 = select(dynamic && !q.scale_is_f16, 1, 0), f16_of_int8 = select(dynamic && q.scale_is_f16, 1, 0);
    s.scale_f32 = places.store("scale_f32", {f32_of_int8}, [&](const Numbers &n, Expr h, Expr t, Expr b) {
        return Places::Element{n[0], s.scale(t, h, b)};
    });
    s.scale_f16 = places.store("scale_f16", {f16_of_int8 + q.groups_of_int4}, [&](const Numbers &n, Expr h, Expr t, Expr b) {
        const Expr step = s.step(steps.channel_place(n[0], least_group), t, h, b);
        return Places::Element{n[0], select(q.groups_of_int4 > 0, step, f16_of(s.scale(t, h, b)))};
    });
    s.minimum_f16 = places.store("minimum_f16", {q.groups_of_int4}, [&](const Numbers &n, Expr h, Expr t, Expr b) {
        return Places::Element{n[0], s.minimum(steps.channel_place(n[0], least_group), t, h, b)};
    });
}

}  // namespace

TransformRowsStages transform_rows_stages(const TransformRowsInputs &in, const RowSteps &steps, Expr out_rows, Expr out_batch) {
    TransformRowsStages s;
    const Type type = in.x.type();
    add_steps(s, in, steps, accumulator_of(type));
    const Places places{in, out_rows, out_batch};
    s.out = places.store("out", {in.channels}, [&](const std::vector<Expr> &d, Expr h, Expr t, Expr b) {
        const Expr channel = at_row(after_passes(steps, s.mixed, s.vars, d[0]), s.vars, t, h, b);
        return Places::Element{d[0], in.stored ? in.stored(channel) : narrowed(type, channel)};
    });
    return s;
}

QuantiseRowsStages quantise_rows_stages(const TransformRowsInputs &in, const RowSteps &steps, const Quantisation &q,
                                        Expr out_rows, Expr out_batch) {
    QuantiseRowsStages s;
    add_steps(s, in, steps, Float(32));
    const Channel channel = [&](const Expr &d) { return after_passes(steps, s.mixed, s.vars, d); };
    add_scale(s, in, q, steps.has_stand_ins, channel);
    add_groups(s, q, channel);
    const Places places{in, out_rows, out_batch};
    store_channels(s, places, steps, q, channel);
    store_scales(s, places, steps, q);
    return s;
}

}  // namespace attune
