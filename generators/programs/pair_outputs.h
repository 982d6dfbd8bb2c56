// SPDX-License-Identifier: MIT
// Inputs and outputs of a kernel for a device whose lanes compute pairs one by one: gradients of a bias and slopes, or of a
// buffer that a user's attention captures, and weights; by the names of its argument list (generators/arguments).
#pragma once
#include "generators/attention/equations/user_attention.h"
#include "schedules/sdpa/simt_schedules.h"
#include <array>
#include <string>

namespace attune {

// Numbers of a kernel, in the order of its argument list.
template<std::size_t Count> class NumberInputs {
public:
    void add_to(Halide::Internal::GeneratorBase &generator, const std::array<const char *, Count> &names) {
        for (std::size_t n = 0; n < Count; n++) numbers_[n] = generator.add_input<int32_t>(names[n]);
    }
    Halide::Expr operator[](std::size_t n) const { return *numbers_[n]; }

private:
    std::array<Halide::GeneratorInput<int32_t> *, Count> numbers_ = {};
};

// Constrains an output, whose extents are free, to begin at 0.
inline void begin_at_zero(Halide::GeneratorOutput<Halide::Func> *output) {
    auto buffer = static_cast<Halide::Func>(*output).output_buffer();
    for (int n = 0; n < buffer.dimensions(); n++) buffer.dim(n).set_min(0);
}

// The members are called in the order of their declaration, each in the function of the generator that its name begins with.
class TableGradients {
public:
    void configure_inputs(Halide::Internal::GeneratorBase &generator) {
        wants_bias_ = generator.add_input<bool>("wants_bias"), wants_slopes_ = generator.add_input<bool>("wants_slopes");
        extents_.add_to(generator, {"bias_keys", "bias_queries", "bias_heads", "bias_batch", "slope_batch"});
    }
    void configure_outputs(Halide::Internal::GeneratorBase &generator, const Halide::Type &held) {
        slope_rows_ = generator.add_output<Halide::Func>("slope_rows", Halide::Float(64), 3);  // (i, h, b)
        slopes_ = generator.add_output<Halide::Func>("grad_slopes", Halide::Float(32), 2);     // (h, b)
        bias_ = generator.add_output<Halide::Func>("grad_bias", held, 4);                      // (j, i, h, b)
    }
    void generate(const GradientInputs &in, const SimtInstructions &does, const Halide::Expr &batch, const Score &score,
                  const std::function<Halide::Expr(Halide::Expr)> &narrowed) {
        const auto &e = extents_;
        stages_ = table_gradient_stages({in, does.exp2, batch, *wants_bias_, *wants_slopes_, {e[0], e[1], e[2], e[3]}, e[4]},
                                        score, narrowed);
        *slope_rows_ = stages_.slope_rows, *slopes_ = stages_.slopes, *bias_ = stages_.bias;
    }
    void schedule() {
        for (auto *output : {slope_rows_, slopes_, bias_}) begin_at_zero(output);
        static_cast<Halide::Func>(*slopes_).output_buffer().dim(0).set_stride(Halide::Expr());
        schedule_table_gradients(stages_);
    }

private:
    Halide::GeneratorInput<bool> *wants_bias_ = nullptr, *wants_slopes_ = nullptr;
    NumberInputs<5> extents_;
    Halide::GeneratorOutput<Halide::Func> *slope_rows_ = nullptr, *slopes_ = nullptr, *bias_ = nullptr;
    TableGradientStages stages_;
};

class CapturedGradient {
public:
    void configure_inputs(Halide::Internal::GeneratorBase &generator) {
        numbers_.add_to(generator, {"which", "copies", "elements", "extent_x", "extent_y", "extent_z"});
    }
    void configure_outputs(Halide::Internal::GeneratorBase &generator) {
        sums_ = generator.add_output<Halide::Func>("sums", Halide::Float(64), 2);                // (copy, element)
        of_capture_ = generator.add_output<Halide::Func>("grad_capture", Halide::Float(32), 4);  // (x, y, z, w)
    }
    void generate(const GradientInputs &in, const SimtInstructions &does, const Halide::Expr &batch, const Score &score,
                  const std::vector<CapturedBuffer> &buffers) {
        const auto &n = numbers_;
        stages_ = capture_gradient_stages({in, does.exp2, buffers, n[0], batch, n[1], n[2], {n[3], n[4], n[5]}}, score);
        *sums_ = stages_.sums, *of_capture_ = stages_.out;
    }
    void schedule() {
        for (auto *output : {sums_, of_capture_}) begin_at_zero(output);
        schedule_capture_gradient(stages_);
    }
    bool has_reads() const { return stages_.has_reads; }

private:
    NumberInputs<6> numbers_;
    Halide::GeneratorOutput<Halide::Func> *sums_ = nullptr, *of_capture_ = nullptr;
    CaptureGradientStages stages_;
};

class WeightsOutput {
public:
    void configure(Halide::Internal::GeneratorBase &generator, const Halide::Type &held) {
        lse_ = generator.add_input<Halide::Buffer<>>("lse", Halide::Float(32), 3);  // (i, h, b)
        numbers_.add_to(generator, {"mode", "heads_of_mean"});
        totals_ = generator.add_output<Halide::Func>("row_totals", Halide::Float(32), 3);  // (i, h, b)
        weights_ = generator.add_output<Halide::Func>("weights", held, 4);                 // (j, i, h, b)
    }
    void generate(const SdpaInputs &in, const SimtInstructions &does, const Score &score,
                  const std::function<Halide::Expr(Halide::Expr)> &narrowed) {
        stages_ = weights_simt_stages({in, *lse_, numbers_[0], numbers_[1], does.exp2}, score, narrowed);
        *totals_ = stages_.total, *weights_ = stages_.out;
    }
    void schedule() {
        for (int n = 0; n < 3; n++) lse_->dim(n).set_min(0);
        lse_->dim(0).set_stride(Halide::Expr());
        for (auto *output : {totals_, weights_}) begin_at_zero(output);
        schedule_weights_simt(stages_);
    }

private:
    Halide::GeneratorInput<Halide::Buffer<>> *lse_ = nullptr;
    NumberInputs<2> numbers_;
    Halide::GeneratorOutput<Halide::Func> *totals_ = nullptr, *weights_ = nullptr;
    WeightsSimtStages stages_;
};

}  // namespace attune
