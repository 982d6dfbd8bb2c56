// SPDX-License-Identifier: MIT
#include "lowering/passes/rounded_products.h"
#include "lowering/required_pass.h"

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class RoundProducts : public RequiredPass {
    using IRMutator::visit;
    Expr visit(const Call *op) override {
        const Expr e = IRMutator::visit(op);
        const Call *call = e.as<Call>();
        if (!call || !call->is_intrinsic(Call::strict_mul) || call->type != Float(32)) return e;
        found_ = true;
        return Call::make(Float(32), "llvm.nvvm.mul.rn.f", call->args, Call::PureExtern);
    }

public:
    RoundProducts() : RequiredPass("a kernel whose products are to be rounded has none of strict_float()") {}
};

}  // namespace

void round_products(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new RoundProducts); }

}  // namespace attune
