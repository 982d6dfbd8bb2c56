// SPDX-License-Identifier: MIT
#include "lowering/passes/mask_tail_loads.h"
#include <set>
#include <string>
#include <utility>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// An index with its term min(ramp, broadcast) replaced by the ramp.
class WithoutEnd : public IRMutator {
    using IRMutator::visit;

    Expr visit(const Min *op) override {
        if (op->type.is_scalar() || found++ || !strided_ramp_base(op->a).defined() || !op->b.as<Broadcast>()) return op;
        within = op->a <= op->b;
        return op->a;
    }

public:
    int found = 0;
    Expr within;  // not defined without such a term, or with several
};

class MaskLoads : public IRMutator {
    using IRMutator::visit;
    const std::set<std::string> inputs_;

    Expr visit(const Load *op) override {
        if (!inputs_.count(op->name) || !op->type.is_vector() || !is_const_one(op->predicate)) return IRMutator::visit(op);
        WithoutEnd without_end;
        // A place in 64 bits is a sum by an intrinsic, of which Halide 21 makes no ramp.
        const Expr index = simplify(without_end.mutate(lower_intrinsics(op->index)));
        if (without_end.found != 1 || !without_end.within.defined() || !strided_ramp_base(index).defined())
            return IRMutator::visit(op);
        return Load::make(op->type, op->name, index, op->image, op->param, without_end.within, ModulusRemainder());
    }

public:
    explicit MaskLoads(std::set<std::string> inputs) : inputs_(std::move(inputs)) {}
};

}  // namespace

void mask_tail_loads(Pipeline pipeline, const std::vector<ImageParam> &inputs, const Target &target) {
    const bool all_types = target.has_feature(Target::AVX512_Skylake), words = target.has_feature(Target::AVX2);
    std::set<std::string> names;
    for (const ImageParam &input : inputs)
        if (all_types || (words && input.type().bits() >= 32)) names.insert(input.name());
    if (!names.empty()) pipeline.add_custom_lowering_pass(new MaskLoads(names));
}

}  // namespace attune
