// SPDX-License-Identifier: MIT
// Inputs of quantised keys and values of a kernel for a device, by the names of its argument list (generators/arguments).
#pragma once
#include "generators/math/dequantised.h"
#include <array>
#include <string>

namespace attune {

// Scales and minima of rows that lie as the rows do: (g, row, h, 1). Of int8, g is the channel, along which one scale of a row
// has stride 0; of int4, the channel without its last group_bits bits.
class QuantisedInputs {
public:
    enum class Of { key, value };

    // Called in configure().
    void add_int8_to(Halide::Internal::GeneratorBase &generator) {
        add_scales_f16_to(generator);
        for (Rows &r : rows_) r.scale_f32 = generator.add_input<Halide::Buffer<>>(r.name + "_scale_f32", Halide::Float(32), 4);
        for (Rows &r : rows_) r.scale_is_f16 = generator.add_input<bool>(r.name + "_scale_is_f16");
    }
    void add_int4_to(Halide::Internal::GeneratorBase &generator) {
        add_scales_f16_to(generator);
        for (Rows &r : rows_) r.minimum = generator.add_input<Halide::Buffer<>>(r.name + "_minimum", Halide::Float(16), 4);
        for (Rows &r : rows_) r.group_bits = generator.add_input<int32_t>(r.name + "_group_bits");
    }
    // Called in schedule().
    void constrain() {
        for (Rows &r : rows_)
            for (auto *of_rows : {r.scale_f32, r.scale_f16, r.minimum}) {
                if (!of_rows) continue;
                for (int n = 0; n < 4; n++) of_rows->dim(n).set_min(0);
                of_rows->dim(0).set_stride(Halide::Expr());
            }
    }
    // Channel d of row j of a head as f32; bytes are those of the row, two channels in each of int4.
    template<typename Bytes>
    Halide::Expr number(Of of, const Bytes &bytes, const Halide::Expr &d, const Halide::Expr &j, const Halide::Expr &h) const {
        using Halide::cast;
        const Rows &r = rows_[of == Of::value];
        if (!r.minimum) {
            const Halide::Expr scale =
                select(*r.scale_is_f16, cast<float>((*r.scale_f16)(d, j, h, 0)), (*r.scale_f32)(d, j, h, 0));
            return dequantised_int8(bytes(d, j, h, 0), scale);
        }
        const Halide::Expr g = unsafe_promise_clamped(d >> *r.group_bits, 0, r.minimum->dim(0).extent() - 1);
        return dequantised_int4(bytes(d / 2, j, h, 0), d % 2, cast<float>((*r.minimum)(g, j, h, 0)),
                                cast<float>((*r.scale_f16)(g, j, h, 0)));
    }

private:
    struct Rows {
        std::string name;
        Halide::GeneratorInput<Halide::Buffer<>> *scale_f32 = nullptr, *scale_f16 = nullptr, *minimum = nullptr;
        Halide::GeneratorInput<bool> *scale_is_f16 = nullptr;
        Halide::GeneratorInput<int32_t> *group_bits = nullptr;
    };
    std::array<Rows, 2> rows_{{{"key"}, {"value"}}};

    void add_scales_f16_to(Halide::Internal::GeneratorBase &generator) {
        for (Rows &r : rows_) r.scale_f16 = generator.add_input<Halide::Buffer<>>(r.name + "_scale_f16", Halide::Float(16), 4);
    }
};

}  // namespace attune
