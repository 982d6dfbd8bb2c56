// SPDX-License-Identifier: MIT
#include "lowering/instructions/nvptx.h"
#include "lowering/passes/async_copies.h"
#include "lowering/require.h"
#include "schedules/sdpa/mma_schedules.h"

namespace attune {
using namespace Halide;

MmaInstructions mma_instructions(const Target &target, const Type &type) {
    require(target.has_feature(Target::CUDA), "products of matrices are known for CUDA alone");
    // Functions of lowering/instructions/nvptx.cl.
    const bool whole = type.bits() == 32;
    const std::string suffix = whole ? "f32" : type.is_float() ? "f16" : "bf16";
    auto call = [suffix](const Type &result, const std::string &name, const std::vector<Expr> &args) {
        return Internal::Call::make(result, name + suffix, args, Internal::Call::PureExtern);
    };
    MmaInstructions does;
    does.exp2 = cuda_exp2, does.reciprocal = cuda_reciprocal, does.max = cuda_max, does.exchange = cuda_exchange;
    does.word = [=](const std::vector<Expr> &of) {
        return whole ? reinterpret<uint32_t>(of[0]) : call(UInt(32), "attune_pair_", of);
    };
    does.multiply = [=](const std::vector<Expr> &a, const std::vector<Expr> &b, const Expr &sum) {
        std::vector<Expr> args = a;
        args.insert(args.end(), b.begin(), b.end());
        args.push_back(sum);
        return call(Float(32), "attune_multiply_", args);
    };
    does.element = [=](const std::vector<Expr> &a, const std::vector<Expr> &b, const std::array<Expr, 4> &sum, int e) {
        std::vector<Expr> args = a;
        args.insert(args.end(), b.begin(), b.end());
        args.insert(args.end(), sum.begin(), sum.end());
        args.emplace_back(e);
        return call(Float(32), "attune_element_", args);
    };
    does.matrices = [](const Expr &row, const Expr &e, bool transposed) {
        return matrices_in_shared_memory(row, e, transposed);
    };
    does.copied = copied_to_shared_memory, does.opaque = cuda_opaque;
    return does;
}

}  // namespace attune
