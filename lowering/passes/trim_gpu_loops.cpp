// SPDX-License-Identifier: MIT
#include "lowering/passes/trim_gpu_loops.h"
#include "lowering/instructions/nvptx.h"
#include "lowering/required_pass.h"
#include <algorithm>
#include <map>
#include <optional>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// The condition inside of unsolved().
Expr solved(const Expr &e) {
    const NE *ne = e.as<NE>();
    if (!ne || !is_const_zero(ne->b)) return e;
    Expr value = ne->a;
    if (const Call *both = value.as<Call>(); both && both->is_intrinsic(Call::bitwise_and) && is_const_one(both->args[1]))
        value = both->args[0];
    const Cast *cast = value.as<Cast>();
    return cast && cast->value.type().is_bool() ? cast->value : e;
}

template<typename Op> void flatten(const Expr &e, std::vector<Expr> &into) {
    const Expr of = solved(e);
    if (const Op *op = of.as<Op>())
        flatten<Op>(op->a, into), flatten<Op>(op->b, into);
    else
        into.push_back(of);
}

// Whether an expression reads a stage's output: such a value bounds no loop, because the loop may write it.
bool reads_stages(const Expr &e) {
    class Reads : public IRVisitor {
        using IRVisitor::visit;
        void visit(const Load *op) override {
            found = found || (!op->param.defined() && !op->image.defined());
            IRVisitor::visit(op);
        }

    public:
        bool found = false;
    } reads;
    e.accept(&reads);
    return reads.found;
}

// Iterations that a loop takes: lower <= i < upper, except [gap.first, gap.second).
struct Taken {
    std::string i;
    std::vector<Expr> lower, upper, always;
    std::optional<std::pair<Expr, Expr>> gap;
    Expr no_gap;  // condition under which the gap is absent

    bool free(const Expr &e) const { return !expr_uses_var(e, i) && !reads_stages(e); }
    bool is_i(const Expr &e) const {
        const Variable *v = e.as<Variable>();
        return v && v->name == i;
    }
    // Bounds by a condition: i < the first, or the second <= i; both undefined for other conditions.
    std::pair<Expr, Expr> end(const Expr &e) const {
        if (const LT *op = e.as<LT>()) {
            if (is_i(op->a) && free(op->b)) return {op->b, Expr()};
            if (is_i(op->b) && free(op->a)) return {Expr(), op->a + 1};
        }
        if (const LE *op = e.as<LE>()) {
            if (is_i(op->a) && free(op->b)) return {op->b + 1, Expr()};
            if (is_i(op->b) && free(op->a)) return {Expr(), op->a};
        }
        return {};
    }
    static void add(std::vector<Expr> &to, const Expr &e) {
        if (std::none_of(to.begin(), to.end(), [&](const Expr &known) { return equal(known, e); })) to.push_back(e);
    }
    bool take_gap(const Expr &condition) {
        std::vector<Expr> either;
        flatten<Or>(condition, either);
        Expr first, second, none = const_false();
        for (const Expr &e : either) {
            const auto [upper, lower] = end(e);
            if (upper.defined() && !first.defined())
                first = upper;
            else if (lower.defined() && !second.defined())
                second = lower;
            else if (free(e))
                none = none || e;
            else
                return false;
        }
        if (!first.defined() || !second.defined()) return false;
        if (gap && (!equal(gap->first, first) || !equal(gap->second, second) || !equal(no_gap, none))) return false;
        gap = {first, second}, no_gap = none;
        return true;
    }
    // Whether the loop's new bounds imply the condition.
    bool take(const Expr &condition) {
        const auto [above, below] = end(condition);
        if (above.defined())
            add(upper, above);
        else if (below.defined())
            add(lower, below);
        else if (free(condition))
            add(always, condition);
        else
            return take_gap(condition);
        return true;
    }
};

// Removes conditions that hold for all of a statement; a barrier behind the statement is not part of its work.
Stmt without_conditions(const Stmt &s, Taken &taken, const std::map<std::string, Expr> &lets = {}) {
    if (const Block *block = s.as<Block>()) {
        if (!is_barrier(block->rest)) return s;
        return Block::make(without_conditions(block->first, taken, lets), block->rest);
    }
    if (const LetStmt *let = s.as<LetStmt>()) {
        std::map<std::string, Expr> more = lets;
        more[let->name] = substitute(lets, let->value);
        return LetStmt::make(let->name, let->value, without_conditions(let->body, taken, more));
    }
    const IfThenElse *branch = s.as<IfThenElse>();
    if (!branch || branch->else_case.defined()) return s;
    std::vector<Expr> all;
    flatten<And>(simplify(substitute_in_all_lets(substitute(lets, branch->condition))), all);
    Expr rest = const_true();
    for (const Expr &e : all)
        if (!taken.take(e)) rest = rest && e;
    const Stmt body = without_conditions(branch->then_case, taken, lets);
    return is_const_one(rest) ? body : IfThenElse::make(rest, body);
}

class TrimLoops : public RequiredPass {
    using IRMutator::visit;
    Stmt visit(const For *op) override {
        const Stmt inner = IRMutator::visit(op);
        op = inner.as<For>();
        if (!op || op->for_type != ForType::Serial) return inner;
        Taken taken{op->name, {op->min}, {op->min + op->extent}, {}, {}, {}};
        const Stmt body = without_conditions(op->body, taken);
        if (taken.lower.size() == 1 && taken.upper.size() == 1 && taken.always.empty() && !taken.gap) return inner;
        found_ = true;
        auto all = [](const std::vector<Expr> &of, Expr (*combine)(Expr, Expr)) {
            Expr e = of[0];
            for (std::size_t n = 1; n < of.size(); n++) e = combine(e, of[n]);
            return e;
        };
        const std::string name = unique_name(op->name + ".taken"), begin_name = unique_name("taken_begin"),
                          gap_name = unique_name("taken_gap"), skip_name = unique_name("taken_skip");
        const Expr begin = Variable::make(Int(32), begin_name), gap = Variable::make(Int(32), gap_name),
                   skip = Variable::make(Int(32), skip_name), turn = Variable::make(Int(32), name);
        const Expr end = all(taken.upper, [](Expr a, Expr b) { return min(a, b); });
        Expr count = end - begin - skip;
        for (const Expr &condition : taken.always) count = Select::make(condition, count, 0);
        Expr i = begin + turn, gap_begin = end, gap_size = 0;
        if (taken.gap) {
            gap_begin = max(taken.gap->first, begin);
            gap_size = Select::make(taken.no_gap, 0, max(min(taken.gap->second, end) - gap, 0));
            i += Select::make(i >= gap, skip, 0);
        }
        // The old name keeps its meaning by a let.
        Stmt loop = For::make(name, 0, max(count, 0), op->for_type, op->partition_policy, op->device_api,
                              LetStmt::make(op->name, i, body));
        loop = LetStmt::make(skip_name, gap_size, loop);
        loop = LetStmt::make(gap_name, gap_begin, loop);
        return LetStmt::make(begin_name, all(taken.lower, [](Expr a, Expr b) { return max(a, b); }), loop);
    }

public:
    TrimLoops() : RequiredPass("a kernel whose loops are to be trimmed has no loop under a condition") {}
};

}  // namespace

void trim_gpu_loops(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new TrimLoops); }

}  // namespace attune
