// SPDX-License-Identifier: MIT
#include "lowering/passes/fused_products.h"
#include <string>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// The factors of a product that a let names. They are named themselves where a sum takes the product.
struct Product {
    Expr a, b;
    bool fused = false;
};

class FusedProducts : public IRMutator {
    using IRMutator::visit;
    Scope<Product> named_;

    static const Mul *fusible(const Expr &of) {
        const Mul *mul = of.as<Mul>();
        const Type t = mul ? mul->type.element_of() : Type();
        return mul && (t == Float(32) || t == Float(64)) ? mul : nullptr;
    }

    // The call that fuses a product with the other operand of a sum; undefined where `product` is none, or the other operand is
    // zero: a changed sign is not a sum.
    Expr fused(const char *function, const Expr &product, const Expr &other) {
        if (is_const_zero(other)) return {};
        Expr a, b;
        const Variable *name = product.as<Variable>();
        if (const Mul *mul = fusible(product)) {
            a = mutate(mul->a), b = mutate(mul->b);
        } else if (name && named_.contains(name->name)) {
            Product &of_name = named_.ref(name->name);
            a = of_name.a, b = of_name.b, of_name.fused = true;
        } else {
            return {};
        }
        return Call::make(a.type(), function + std::string(a.type().bits() == 32 ? "_f32" : "_f64"), {a, b, mutate(other)},
                          Call::PureExtern);
    }
    Expr visit(const Add *op) override {
        Expr with = fused("attune_fmadd", op->a, op->b);
        if (!with.defined()) with = fused("attune_fmadd", op->b, op->a);
        return with.defined() ? with : IRMutator::visit(op);
    }
    Expr visit(const Sub *op) override {
        Expr with = fused("attune_fnmsub", op->a, op->b);
        if (!with.defined()) with = fused("attune_fmsub", op->b, op->a);
        return with.defined() ? with : IRMutator::visit(op);
    }

    // A let of a product, with lets of its factors around it where a sum in the body takes them.
    template<typename LetOrLetStmt> auto let_of(const LetOrLetStmt *op) -> decltype(op->body) {
        const Expr value = mutate(op->value);
        const Mul *mul = fusible(value);
        if (!mul) return LetOrLetStmt::make(op->name, value, mutate(op->body));
        const Expr a = Variable::make(mul->type, op->name + ".a"), b = Variable::make(mul->type, op->name + ".b");
        named_.push(op->name, {a, b});
        auto body = mutate(op->body);
        const bool takes_factors = named_.get(op->name).fused;
        named_.pop(op->name);
        if (!takes_factors) return LetOrLetStmt::make(op->name, value, body);
        body = LetOrLetStmt::make(op->name, a * b, body);
        return LetOrLetStmt::make(op->name + ".a", mul->a, LetOrLetStmt::make(op->name + ".b", mul->b, body));
    }
    Expr visit(const Let *op) override { return let_of(op); }
    Stmt visit(const LetStmt *op) override { return let_of(op); }
};

}  // namespace

void fuse_products(Pipeline pipeline, const Target &target) {
    if (target.arch == Target::ARM && target.bits == 64) pipeline.add_custom_lowering_pass(new FusedProducts);
}

}  // namespace attune
