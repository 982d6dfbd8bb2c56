// SPDX-License-Identifier: MIT
#include "lowering/halide_patches/uses_variable.h"
#include <unordered_set>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {
// All names in an expression that ExprUsesVars compares.
class Names : public IRGraphVisitor {
public:
    std::unordered_set<std::string> found;

private:
    using IRGraphVisitor::visit;
    void visit(const Variable *op) override { found.insert(op->name); }
    void visit(const Load *op) override { add(op); }
    void visit(const Call *op) override { add(op); }
    void visit(const Let *op) override { add(op); }

    template<typename Node> void add(const Node *op) {
        found.insert(op->name);
        IRGraphVisitor::visit(op);
    }
};

// The names of an expression, which is kept so that its address is not reused.
struct Known {
    Expr expression;
    uint64_t bits = 0;  // one bit for each name: most answers are no, and need no more
    std::unordered_set<std::string> names;
};

uint64_t bit_of(const std::string &name) { return uint64_t(1) << (std::hash<std::string>{}(name) % 64); }

const Known &names_of(const Expr &expression) {
    // A few hundred bounds of buffers are looked up for each of thousands of variables; other expressions, once or twice.
    static thread_local std::vector<Known> table(1 << 14);
    const auto address = reinterpret_cast<uintptr_t>(expression.get());
    Known &known = table[(address >> 4 ^ address >> 18) % table.size()];
    if (!known.expression.same_as(expression)) {
        Names names;
        expression.accept(&names);
        known = {expression, 0, std::move(names.found)};
        for (const std::string &name : known.names) known.bits |= bit_of(name);
    }
    return known;
}
}  // namespace

bool expression_uses_variable(const Expr &expression, const std::string &variable, const Scope<Expr> &bound) {
    if (&bound == &Scope<Expr>::empty_scope()) {
        const Known &known = names_of(expression);
        return (known.bits & bit_of(variable)) && known.names.count(variable) > 0;
    }
    Scope<> asked;
    asked.push(variable);
    ExprUsesVars<void> uses(asked, &bound);
    expression.accept(&uses);
    return uses.result;
}

}  // namespace attune
