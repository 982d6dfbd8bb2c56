// SPDX-License-Identifier: MIT
#include "lowering/passes/thread_local_registers.h"
#include "lowering/required_pass.h"
#include <map>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

class WithoutThread : public IRMutator {
    using IRMutator::visit;
    Expr visit(const Variable *op) override {
        if (op->name.find(".thread_id_") == std::string::npos) return op;
        found = true;
        return make_zero(op->type);
    }

public:
    bool found = false;
};

class ThreadLocalRegisters : public RequiredPass {
    using IRMutator::visit;
    std::map<std::string, Expr> lets_;    // lets that depend on the thread
    std::map<std::string, Expr> arrays_;  // arrays, and the part of their indices that depends on the thread

    Expr expanded(Expr e) const {
        for (;;) {
            const Expr next = substitute(lets_, e);
            if (next.same_as(e)) return e;
            e = next;
        }
    }
    Expr own(const std::string &name, const Expr &index) {
        const Ramp *ramp = index.as<Ramp>();
        const Expr full = simplify(expanded(ramp ? ramp->base : index));
        WithoutThread of_first;
        const Expr first = simplify(of_first.mutate(full)), part = simplify(full - first);
        Expr &known = arrays_[name];
        if (!known.defined()) known = part;
        found_ = found_ || !is_const_zero(part);
        if (!is_const_zero(simplify(known - part))) throw CompileError("attune: threads do not index " + name + " alike\n");
        return ramp ? Ramp::make(first, ramp->stride, ramp->lanes) : first;
    }

    static Expr element(const Expr &index, int n) {
        const Ramp *ramp = index.as<Ramp>();
        return ramp ? simplify(ramp->base + n * ramp->stride) : index;
    }

    Stmt visit(const LetStmt *op) override {
        WithoutThread depends;
        depends.mutate(expanded(op->value));
        if (depends.found) lets_[op->name] = op->value;
        return IRMutator::visit(op);
    }
    Stmt visit(const Allocate *op) override {
        if (op->memory_type == MemoryType::Register) arrays_[op->name] = Expr();
        return IRMutator::visit(op);
    }
    static void require_whole(const Expr &predicate, const std::string &name) {
        if (!is_const_one(predicate)) throw CompileError("attune: a part of a vector of " + name + " is read or written\n");
    }
    Expr visit(const Load *op) override {
        if (!arrays_.count(op->name)) return IRMutator::visit(op);
        require_whole(op->predicate, op->name);
        const Expr index = own(op->name, op->index);
        const Type of_element = op->type.element_of();
        const auto load = [&](int n) {
            return Load::make(of_element, op->name, element(index, n), op->image, op->param, const_true(), {});
        };
        if (op->type.is_scalar()) return load(0);
        // As bits: Halide would make one load of float loads.
        std::vector<Expr> bits;
        for (int n = 0; n < op->type.lanes(); n++) bits.push_back(reinterpret(Int(of_element.bits()), load(n)));
        return reinterpret(op->type, Shuffle::make_concat(bits));
    }
    Stmt visit(const Store *op) override {
        if (!arrays_.count(op->name)) return IRMutator::visit(op);
        require_whole(op->predicate, op->name);
        const Expr index = own(op->name, op->index), value = mutate(op->value);
        if (value.type().is_scalar()) return Store::make(op->name, value, index, op->param, const_true(), {});
        const std::string all = unique_name(op->name + "_stored");
        std::vector<Stmt> stores;
        for (int n = 0; n < value.type().lanes(); n++)
            stores.push_back(Store::make(op->name, Shuffle::make_extract_element(Variable::make(value.type(), all), n),
                                         element(index, n), op->param, const_true(), {}));
        return LetStmt::make(all, value, Block::make(stores));
    }

public:
    ThreadLocalRegisters()
        : RequiredPass("a kernel whose registers are to be local to a thread has no register array that threads index") {}
};

}  // namespace

void use_thread_local_registers(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new ThreadLocalRegisters); }

}  // namespace attune
