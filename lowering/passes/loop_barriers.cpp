// SPDX-License-Identifier: MIT
#include "lowering/passes/loop_barriers.h"
#include "lowering/required_pass.h"
#include <algorithm>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class AddBarriers : public RequiredPass {
    const std::vector<LoweredLoop> loops_;
    using IRMutator::visit;
    Stmt visit(const For *op) override {
        const Stmt body = mutate(op->body);
        if (op->for_type != ForType::Serial ||
            std::none_of(loops_.begin(), loops_.end(), [&](const LoweredLoop &loop) { return loop.is(op->name); }))
            return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
        found_ = true;
        const Stmt barrier = Evaluate::make(Call::make(
            Int(32), Call::gpu_thread_barrier, {static_cast<int>(CodeGen_GPU_Dev::MemoryFenceType::Shared)}, Call::Intrinsic));
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                         Block::make(body, barrier));
    }

public:
    explicit AddBarriers(const std::vector<LoweredLoop> &loops)
        : RequiredPass("a kernel whose lanes are to wait in a loop has no such loop"), loops_(loops) {}
};

}  // namespace

void add_loop_barriers(Pipeline pipeline, const std::vector<LoweredLoop> &loops) {
    if (!loops.empty()) pipeline.add_custom_lowering_pass(new AddBarriers(loops));
}

}  // namespace attune
