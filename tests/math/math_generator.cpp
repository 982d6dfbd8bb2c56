// SPDX-License-Identifier: MIT
// Expressions of generators/math as kernels over arrays, for math_tests.cpp.
#include "generators/math/exp2.h"
#include "generators/math/philox.h"
#include "generators/math/tanh.h"
#include "lowering/instructions/powers.h"
#include "lowering/lower.h"
#include "schedules/transpose.h"
#include <optional>

namespace {

enum class Function { exp2, exp2by, exp2bf16, exp2bf16by, exp, tanh };

class Math : public Halide::Generator<Math> {
public:
    GeneratorParam<Function> function{"function",
                                      Function::tanh,
                                      {{"exp2", Function::exp2},
                                       {"exp2by", Function::exp2by},  // by instructions, where the target has any
                                       {"exp2bf16", Function::exp2bf16},
                                       {"exp2bf16by", Function::exp2bf16by},
                                       {"exp", Function::exp},
                                       {"tanh", Function::tanh}}};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    Input<Buffer<void, 1>> x{"x"};
    Output<Buffer<void, 1>> out{"out"};

    void configure() {
        x.set_type(dtype);
        out.set_type(dtype);
    }
    void generate() {
        const Halide::Expr at = x(i);
        const Halide::Expr one = Halide::Internal::make_one(at.type());
        const attune::PowerInstructions powers = attune::power_instructions(target);
        out(i) = function == Function::tanh         ? attune::tanh_precise(at)
                 : function == Function::exp        ? attune::exp_of(at)
                 : function == Function::exp2by     ? attune::exp2_nonpositive(at, one, powers)
                 : function == Function::exp2bf16   ? attune::exp2_nonpositive_for_bf16(at, one)
                 : function == Function::exp2bf16by ? attune::exp2_nonpositive_for_bf16(at, one, powers)
                                                    : attune::exp2_nonpositive(at, one);
    }
    void schedule() {
        const int vectors = function == Function::exp2by ? 2 : 1;  // one instruction each
        static_cast<Halide::Func>(out).vectorize(i, vectors * natural_vector_size(out.type()),
                                                 Halide::TailStrategy::GuardWithIf);
    }

private:
    Halide::Var i{"i"};
};

// words(i, n) = word n for the counter (first + i, and the other three given).
class Philox : public Halide::Generator<Philox> {
public:
    Input<uint32_t> first{"first"}, c1{"c1"}, c2{"c2"}, c3{"c3"}, key_low{"key_low"}, key_high{"key_high"};
    Output<Buffer<uint32_t, 2>> words{"words"};

    void generate() {
        const auto all = attune::philox4x32_10({first + Halide::cast<uint32_t>(i), c1, c2, c3}, {key_low, key_high});
        words(i, n) = Halide::mux(n, {all[0], all[1], all[2], all[3]});
    }
    void schedule() {
        static_cast<Halide::Func>(words).bound(n, 0, 4).reorder(n, i).unroll(n).vectorize(
            i, natural_vector_size(Halide::UInt(32)), Halide::TailStrategy::GuardWithIf);
    }

private:
    Halide::Var i{"i"}, n{"n"};
};

// out(row, column) = in(column, row), for whole blocks.
class Transposed : public Halide::Generator<Transposed> {
public:
    GeneratorParam<int> side{"side", 16};
    GeneratorParam<bool> by_groups{"by_groups", false};
    GeneratorParam<Halide::Type> dtype{"dtype", Halide::Float(32)};
    Input<Buffer<void, 2>> in{"in"};
    Output<Buffer<void, 2>> out{"out"};

    void configure() {
        in.set_type(dtype);
        out.set_type(dtype);
    }
    void generate() {
        blocks.emplace(
            "block", side, std::vector<Halide::Var>{}, [&](Halide::Expr row, Halide::Expr column) { return in(column, row); },
            by_groups);
        out(row, column) = (*blocks)(row, column, {});
    }
    void schedule() {
        Halide::Var in_block("in_block"), column_block("column_block");
        out.split(column, column_block, in_block, side, Halide::TailStrategy::RoundUp).align_bounds(row, side);
        attune::schedule_blocks(Halide::Stage(out), out, row, in_block, column_block, {*blocks});
        attune::lower(get_pipeline(), {.whole_vectors = true}, target);
    }

private:
    Halide::Var row{"row"}, column{"column"};
    std::optional<attune::BlockTranspose> blocks;
};

}  // namespace

HALIDE_REGISTER_GENERATOR(Math, math)
HALIDE_REGISTER_GENERATOR(Transposed, transposed)
HALIDE_REGISTER_GENERATOR(Philox, philox)
