// SPDX-License-Identifier: MIT
#include "lowering/passes/lift_row_shifts.h"
#include "lowering/required_pass.h"
#include <map>
#include <string>
#include <utility>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// Replaces entries that the body of a loop reads by names, one for each entry of the first key of a tile.
class NameEntries : public IRMutator {
    using IRMutator::visit;
    const std::string table_;
    std::map<std::string, Expr> firsts_;  // lets inside the loop, and loops inside it, whose first round stands for all

    Stmt visit(const LetStmt *op) override {
        const Expr value = mutate(op->value);
        firsts_[op->name] = substitute(firsts_, op->value);
        const Stmt body = mutate(op->body);
        firsts_.erase(op->name);
        return LetStmt::make(op->name, value, body);
    }
    Expr visit(const Let *op) override {
        const Expr value = mutate(op->value);
        firsts_[op->name] = substitute(firsts_, op->value);
        const Expr body = mutate(op->body);
        firsts_.erase(op->name);
        return Let::make(op->name, value, body);
    }
    Stmt visit(const For *op) override {
        firsts_[op->name] = substitute(firsts_, op->min);
        const Stmt s = IRMutator::visit(op);
        firsts_.erase(op->name);
        return s;
    }
    Expr visit(const Load *op) override {
        if (op->name != table_ || !op->type.is_scalar()) return IRMutator::visit(op);
        const Expr first = simplify(substitute(firsts_, op->index));
        for (const auto &[name, entry] : entries)
            if (equal(entry.as<Load>()->index, first)) return Variable::make(op->type, name);
        const std::string name = unique_name(table_ + ".of_tile");
        entries.emplace_back(name, Load::make(op->type, op->name, first, op->image, op->param, op->predicate, op->alignment));
        return Variable::make(op->type, name);
    }

public:
    std::vector<std::pair<std::string, Expr>> entries;
    explicit NameEntries(std::string table) : table_(std::move(table)) {}
};

class Lift : public RequiredPass {
    using RequiredPass::visit;
    const LiftedShifts what_;

    Stmt visit(const For *op) override {
        if (!what_.tiles.is(op->name)) return RequiredPass::visit(op);
        NameEntries naming(what_.table.name());
        Stmt body = naming.mutate(op->body);
        found_ = found_ || !naming.entries.empty();
        for (auto entry = naming.entries.rbegin(); entry != naming.entries.rend(); entry++)
            body = LetStmt::make(entry->first, entry->second, body);
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
    }

public:
    explicit Lift(const LiftedShifts &what)
        : RequiredPass("no loop over " + what.tiles.var + " of " + what.tiles.func.name() + " reads " + what.table.name()),
          what_(what) {}
};

}  // namespace

void lift_row_shifts(Pipeline pipeline, const std::vector<LiftedShifts> &shifts) {
    for (const LiftedShifts &what : shifts) pipeline.add_custom_lowering_pass(new Lift(what));
}

}  // namespace attune
