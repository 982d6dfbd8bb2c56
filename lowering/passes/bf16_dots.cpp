// SPDX-License-Identifier: MIT
#include "lowering/passes/bf16_dots.h"
#include "lowering/instructions/bf16.h"
#include "lowering/passes/pairs_of_bf16.h"
#include <utility>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// The load of one pair that a shuffle repeats, or null.
const Load *repeated_pair(const Expr &factor) {
    const Shuffle *shuffle = factor.as<Shuffle>();
    if (!shuffle || shuffle->vectors.size() != 1) return nullptr;
    for (std::size_t n = 0; n < shuffle->indices.size(); n++)
        if (shuffle->indices[n] != static_cast<int>(n % 2)) return nullptr;
    const Load *load = shuffle->vectors[0].as<Load>();
    return load && load->type.lanes() == 2 ? load : nullptr;
}

// A factor of a dot product as 16-bit integers.
Expr operand_of(const Expr &factor) {
    const Type words = UInt(16, factor.type().lanes());
    if (const Load *pair = repeated_pair(factor)) return reinterpret(words, broadcast_pair(pair, factor.type().lanes() / 2));
    return reinterpret(words, factor);
}

class Bf16Dots : public IRMutator {
    using IRMutator::visit;

    // The dot products added to `sum`, which may be undefined; an undefined expression for a sum of another form.
    Expr dots(const Expr &pairs, Expr sum) {
        const VectorReduce *reduce = pairs.as<VectorReduce>();
        if (!reduce || reduce->op != VectorReduce::Add || reduce->type.element_of() != Float(32)) return {};
        const Mul *product = reduce->value.as<Mul>();
        const int lanes = reduce->type.lanes();
        if (!product || lanes == 1 || product->type.lanes() != 2 * lanes) return {};
        const Type narrow = BFloat(16, 2 * lanes);
        Expr a = lossless_cast(narrow, product->a), b = lossless_cast(narrow, product->b);
        if (!a.defined() || !b.defined()) return {};
        if (repeated_pair(a)) std::swap(a, b);  // bfdot takes its second factor by element
        if (!sum.defined()) sum = make_zero(reduce->type);
        return Call::make(reduce->type, bf16_dot_name, {mutate(sum), operand_of(mutate(a)), operand_of(mutate(b))},
                          Call::PureExtern);
    }

    Expr visit(const Add *op) override {
        Expr with = dots(op->b, op->a);
        if (!with.defined()) with = dots(op->a, op->b);
        return with.defined() ? with : IRMutator::visit(op);
    }
    Expr visit(const VectorReduce *op) override {
        const Expr alone = dots(op, {});
        return alone.defined() ? alone : IRMutator::visit(op);
    }
};

}  // namespace

void use_bf16_dots(Pipeline pipeline, const Target &target) {
    if (is_aarch64_with_bf16(target)) pipeline.add_custom_lowering_pass(new Bf16Dots);
}

}  // namespace attune
