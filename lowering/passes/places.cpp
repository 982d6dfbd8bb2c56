// SPDX-License-Identifier: MIT
#include "lowering/passes/places.h"

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class WithWideTerms : public IRMutator {
    using IRMutator::visit;
    Expr wide(const Expr &e) { return mutate(cast<int64_t>(e)); }

    Expr visit(const Cast *op) override {
        if (op->type != Int(64) || op->value.type() != Int(32)) return IRMutator::visit(op);
        if (const Add *sum = op->value.as<Add>()) return wide(sum->a) + wide(sum->b);
        if (const Sub *difference = op->value.as<Sub>()) return wide(difference->a) - wide(difference->b);
        if (const Mul *product = op->value.as<Mul>()) return wide(product->a) * wide(product->b);
        return op;
    }
};

}  // namespace

Expr written_out(Expr place, const Lets &around) {
    for (Expr next = substitute(around, place); !next.same_as(place); next = substitute(around, place)) place = next;
    return WithWideTerms().mutate(lower_intrinsics(place));
}

}  // namespace attune
