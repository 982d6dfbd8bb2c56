#include "schedules/require.h"
#include "schedules/device_instructions.h"
#include "schedules/sdpa/fragment_schedules.h"

namespace attune {
using namespace Halide;

FragmentInstructions fragment_instructions(const Target &target, const Type &type) {
    require(target.has_feature(Target::CUDA), "products of matrices are known for CUDA alone");
    // Of schedules/device_module.cl.
    const std::string suffix = type.is_float() ? "f16" : "bf16";
    auto call = [suffix](const Type &result, const std::string &name, const std::vector<Expr> &args) {
        return Internal::Call::make(result, name + suffix, args, Internal::Call::PureExtern);
    };
    FragmentInstructions does;
    does.exp2 = cuda_exp2, does.reciprocal = cuda_reciprocal, does.max = cuda_max, does.exchange = cuda_exchange;
    does.pair = [=](const Expr &low, const Expr &high) { return call(UInt(32), "attune_pair_", {low, high}); };
    does.multiply = [=](const Expr &a, const Expr &b, const Expr &sum) {
        return call(Float(32), "attune_multiply_", {a, b, sum});
    };
    return does;
}

}  // namespace attune
