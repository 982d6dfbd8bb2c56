// SPDX-License-Identifier: MIT
#include "lowering/passes/load_tiles_past_l1.h"
#include "lowering/required_pass.h"

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class PastL1 : public RequiredPass {
    using RequiredPass::visit;

    Expr visit(const Call *op) override {
        if (op->name != "tile_load") return RequiredPass::visit(op);
        require(op->type.element_of() == BFloat(16), "AMX tiles are loaded past L1 in bf16 alone");
        found_ = true;
        const Type types[] = {Int(16), Int(16), Handle(), Int(64), Int(64)};  // parameters in instructions/x86_amx.ll
        std::vector<Expr> args = op->args;
        for (std::size_t n = 0; n < args.size(); n++)
            if (!args[n].type().is_handle()) args[n] = cast(types[n], args[n]);
        return Call::make(op->type, "attune_tileloaddt1_bf16", args, Call::Extern);
    }

public:
    PastL1() : RequiredPass("a kernel that loads AMX tiles past L1 has none") {}
};

}  // namespace

void load_tiles_past_l1(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new PastL1); }

}  // namespace attune
