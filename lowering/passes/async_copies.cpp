// SPDX-License-Identifier: MIT
#include "lowering/passes/async_copies.h"
#include "lowering/instructions/nvptx.h"
#include "lowering/required_pass.h"
#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// Functions of lowering/instructions/nvptx.cl; `copied` is a placeholder for the value of a copy until its store is known.
const std::string matrices = "attune_matrices", matrices_transposed = "attune_matrices_transposed";
const std::string copied = "attune_copied", copy = "attune_copy", close_group = "attune_close_copies",
                  wait = "attune_wait_for_copies";

const Call *copied_value(const Store *op) {
    const Call *call = op ? op->value.as<Call>() : nullptr;
    return call && call->name == copied ? call : nullptr;
}
Stmt called(const std::string &name, const std::vector<Expr> &args) {
    return Evaluate::make(Call::make(Int(32), name, args, Call::Extern));
}

// Bytes of shared memory, whether copies go there, and whether a serial loop has copies.
class SharedMemoryUse : public IRVisitor {
    using IRVisitor::visit;
    void visit(const Allocate *op) override {
        if (op->memory_type == MemoryType::GPUShared) {
            const auto elements = Allocate::constant_allocation_size(op->extents, op->name);
            require(bytes == 0 && elements > 0, "shared memory is not one array of a constant size");
            bytes = elements * op->type.bytes();
        }
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        copies = copies || copied_value(op);
        IRVisitor::visit(op);
    }
    void visit(const For *op) override {
        const bool before = std::exchange(copies, false);
        IRVisitor::visit(op);
        loop_copies = loop_copies || (copies && op->for_type == ForType::Serial);
        copies = copies || before;
    }

public:
    std::int64_t bytes = 0;
    bool copies = false, loop_copies = false;
};
SharedMemoryUse use_of(const Stmt &s) {
    SharedMemoryUse use;
    s.accept(&use);
    return use;
}

// A new name for a let's variable, and the let's body under that name.
template<typename Let> auto under_new_name(const Let *op) {
    const std::string name = unique_name(op->name);
    return std::pair(name, substitute(op->name, Variable::make(op->value.type(), name), op->body));
}

// The copies of an iteration alone, with their dependencies. Halide's code generation begins shared memory at address 0.
class OnlyCopies : public IRMutator {
    using IRMutator::visit;
    const Expr half_;
    static Expr first_of(const Expr &e) { return e.type().is_scalar() ? e : Shuffle::make_extract_element(e, 0); }
    Stmt visit(const Store *op) override {
        const Call *value = copied_value(op);
        if (!value) return Evaluate::make(0);
        const Expr to = first_of(op->index) * op->value.type().element_of().bytes() + half_;
        return called(copy,
                      {simplify(cast<uint32_t>(to)), simplify(first_of(value->args[0])), simplify(first_of(value->args[1]))});
    }
    Stmt visit(const Evaluate *) override { return Evaluate::make(0); }
    Stmt visit(const Allocate *op) override { return mutate(op->body); }
    // The copies move into an iteration that has the same names.
    template<typename Op> auto renamed(const Op *op) {
        const auto [name, body] = under_new_name(op);
        return Op::make(name, mutate(op->value), mutate(body));
    }
    Stmt visit(const LetStmt *op) override { return renamed(op); }
    Expr visit(const Let *op) override { return renamed(op); }
    Stmt visit(const Free *) override { return Evaluate::make(0); }

public:
    explicit OnlyCopies(Expr half) : half_(std::move(half)) {}
};

// Steps of an iteration, one statement after the other. A let, under a name of its own, holds for all steps after it.
struct Step {
    std::string name;  // name of a let
    Expr value;
    Stmt stmt;
};
void list_steps(const Stmt &s, std::vector<Step> &steps) {
    if (const Block *op = s.as<Block>())
        list_steps(op->first, steps), list_steps(op->rest, steps);
    else if (const ProducerConsumer *op = s.as<ProducerConsumer>())
        list_steps(op->body, steps);
    else if (const LetStmt *op = s.as<LetStmt>()) {
        const auto [name, body] = under_new_name(op);
        steps.push_back({name, op->value, {}});
        list_steps(body, steps);
    } else
        steps.push_back({{}, {}, s});
}
Stmt joined(const std::vector<Step> &steps) {
    Stmt all = Evaluate::make(0);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step)
        all = step->stmt.defined() ? Block::make(step->stmt, all) : LetStmt::make(step->name, step->value, all);
    return all;
}
bool is_barrier_step(const Step &step) { return is_barrier(step.stmt); }

class WithoutCopies : public IRMutator {
    using IRMutator::visit;
    Stmt visit(const Store *op) override { return copied_value(op) ? Evaluate::make(0) : IRMutator::visit(op); }
};

// Arrays of a kernel's own allocations that a statement reads and writes.
class ArraysUsed : public IRVisitor {
    using IRVisitor::visit;
    void visit(const Load *op) override {
        read.insert(op->name);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        written.insert(op->name);
        IRVisitor::visit(op);
    }

public:
    std::set<std::string> read, written;
};

// An iteration without its copies: at the barrier behind them the next iteration's copies are started, and its own awaited.
// Code between this barrier and another that writes only a lane's registers moves before both, where its loads do not wait
// behind the copies; the other barrier is then unnecessary.
Stmt copying_ahead(const Stmt &iteration, const Stmt &ahead, const std::set<std::string> &arrays, const std::string &shared) {
    std::vector<Step> steps;
    list_steps(iteration, steps);
    const auto copy =
        std::find_if(steps.begin(), steps.end(), [](const Step &s) { return s.stmt.defined() && use_of(s.stmt).copies; });
    auto barrier = std::find_if(copy, steps.end(), is_barrier_step);
    require(barrier != steps.end() && copied_value(copy->stmt.as<Store>()), "copies are not followed by a barrier");
    const auto next = std::find_if(barrier + 1, steps.end(), is_barrier_step);
    const auto movable = [&](const Step &s) {
        ArraysUsed used;
        s.stmt.defined() ? s.stmt.accept(&used) : s.value.accept(&used);
        const bool own = std::includes(arrays.begin(), arrays.end(), used.written.begin(), used.written.end());
        return own && !used.written.count(shared) && !used.read.count(shared);
    };
    if (next != steps.end() && next != barrier + 1 && std::all_of(barrier + 1, next, movable)) {
        std::rotate(barrier, barrier + 1, next);
        barrier = steps.erase(next) - 1;
    }
    for (Step &step : steps)
        if (step.stmt.defined()) step.stmt = WithoutCopies().mutate(step.stmt);
    steps.insert(barrier, {{{}, {}, ahead}, {{}, {}, called(close_group, {})}, {{}, {}, called(wait, {})}});
    return joined(steps);
}

// Loads that a loop repeats in each iteration although their values do not change: conditions on lengths and the like. LLVM
// does not move such loads, because instructions opaque to it change memory.
class SameInEachIteration : public IRMutator {
    using IRMutator::visit;
    const std::set<std::string> &arrays_;  // arrays that the kernel writes
    Scope<void> changing_;

    template<typename Op> auto within(const Op *op) {
        ScopedBinding<void> changes(changing_, op->name);
        return IRMutator::visit(op);
    }
    Stmt visit(const For *op) override { return within(op); }
    Stmt visit(const LetStmt *op) override { return within(op); }
    Expr visit(const Let *op) override { return within(op); }
    Expr visit(const Load *op) override {
        if (!op->type.is_scalar() || arrays_.count(op->name) || expr_uses_vars(op->index, changing_))
            return IRMutator::visit(op);
        for (const auto &[name, load] : loads)
            if (equal(load, op)) return Variable::make(op->type, name);
        loads.emplace_back(unique_name("same"), op);
        return Variable::make(op->type, loads.back().first);
    }

public:
    SameInEachIteration(const std::set<std::string> &arrays, const std::string &loop) : arrays_(arrays) {
        changing_.push(loop);
    }
    std::vector<std::pair<std::string, Expr>> loads;
};

// The begin of an array's index: the index where all threads and loops begin at 0.
class AtBegin : public IRMutator {
    using IRMutator::visit;
    const std::map<std::string, Expr> &lets_;
    Expr visit(const Variable *op) override {
        const auto let = lets_.find(op->name);
        return let == lets_.end() ? make_zero(op->type) : mutate(let->second);
    }

public:
    explicit AtBegin(const std::map<std::string, Expr> &lets) : lets_(lets) {}
    std::int64_t bytes(const Expr &index, const Type &type) {
        const Expr first = index.as<Ramp>() ? index.as<Ramp>()->base : index;
        const auto begin = as_const_int(simplify(mutate(first)));
        require(begin.has_value(), "where shared memory is copied to is not known");
        return *begin * type.bytes();
    }
};

// The begin of a serial loop's copies in shared memory: behind the copies before the loop.
class CopiedByLoop : public IRVisitor {
    using IRVisitor::visit;
    std::map<std::string, Expr> lets_;
    bool in_loop_ = false;
    void visit(const LetStmt *op) override {
        lets_[op->name] = op->value;
        IRVisitor::visit(op);
    }
    void visit(const For *op) override {
        ScopedValue<bool> within(in_loop_, in_loop_ || op->for_type == ForType::Serial);
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        if (!in_loop_ || !copied_value(op)) return;
        const std::int64_t here = AtBegin(lets_).bytes(op->index, op->value.type().element_of());
        begin = begin < 0 ? here : std::min(begin, here);
    }

public:
    std::int64_t begin = -1;
};

class SharedAddresses : public RequiredPass {
    using IRMutator::visit;
    std::map<std::string, Expr> lets_;
    std::set<std::string> arrays_;
    // Size of shared memory; the part behind `begin_` is doubled.
    std::int64_t bytes_ = 0, begin_ = 0;
    std::string shared_;
    Expr half_ = Expr(0);  // offset of the half that this iteration reads

    // The offset of an index in this iteration: 0 for copies before the loop, which stay in place.
    Expr half_of(const Expr &index, const Type &type) const {
        return AtBegin(lets_).bytes(index, type) < begin_ ? Expr(0) : half_;
    }

    Expr address(const Expr &e) const {
        if (const Broadcast *b = e.as<Broadcast>()) return Broadcast::make(address(b->value), b->lanes);
        if (const Variable *v = e.as<Variable>(); v && lets_.count(v->name)) return address(lets_.at(v->name));
        const Load *load = e.as<Load>();
        require(load && load->type.is_scalar(), "matrices are not loaded from shared memory");
        return simplify(cast<uint32_t>(load->index * load->type.bytes() + half_of(load->index, load->type)));
    }
    Expr half_of_turn(const Expr &iteration) const { return (iteration & 1) * static_cast<int>(bytes_ - begin_); }

    Stmt visit(const LetStmt *op) override {
        lets_[op->name] = op->value;
        return IRMutator::visit(op);
    }
    Expr visit(const Let *op) override {
        lets_[op->name] = op->value;
        return IRMutator::visit(op);
    }
    Expr visit(const Call *op) override {
        if (op->name != matrices && op->name != matrices_transposed) return IRMutator::visit(op);
        found_ = true;
        return Call::make(op->type, op->name, {address(op->args[0]), op->args[1]}, Call::Extern);
    }
    // Copies before a loop are awaited in the loop, with its first copies.
    Stmt visit(const Store *op) override { return copied_value(op) ? OnlyCopies(0).mutate(Stmt(op)) : IRMutator::visit(op); }
    Expr visit(const Load *op) override {
        if (op->name != shared_) return IRMutator::visit(op);
        const Type element = op->type.element_of();
        const Expr half = simplify(half_of(op->index, element) / element.bytes());
        const Expr index = op->index + (op->type.is_vector() ? Broadcast::make(half, op->type.lanes()) : half);
        return Load::make(op->type, op->name, simplify(index), op->image, op->param, op->predicate, op->alignment);
    }
    Stmt visit(const Allocate *op) override {
        arrays_.insert(op->name);
        if (op->memory_type != MemoryType::GPUShared || !use_of(op->body).copies) return IRMutator::visit(op);
        found_ = true;
        CopiedByLoop copied;
        op->body.accept(&copied);
        require(copied.begin >= 0, "no loop copies to shared memory");
        ScopedValue<std::int64_t> doubled(bytes_, use_of(op).bytes), from(begin_, copied.begin);
        ScopedValue<std::string> shared(shared_, op->name);
        const Expr elements = static_cast<int>((2 * bytes_ - begin_) / op->type.bytes());
        return Allocate::make(op->name, op->type, op->memory_type, {elements}, op->condition, mutate(op->body));
    }
    Stmt visit(const For *op) override {
        const SharedMemoryUse use = use_of(op->body);
        // The innermost serial loop.
        if (bytes_ == 0 || op->for_type != ForType::Serial || !use.copies || use.loop_copies) return IRMutator::visit(op);
        const Expr here = Variable::make(Int(32), op->name);
        ScopedValue<Expr> reads(half_, half_of_turn(here));
        SameInEachIteration same(arrays_, op->name);
        const Stmt body = same.mutate(op->body), copies = OnlyCopies(half_).mutate(body);
        const Stmt close = called(close_group, {});
        // Opaque: LLVM would keep an address of each copy in registers, from one iteration to the next.
        auto copies_of = [&](const Expr &iteration) { return substitute(op->name, cuda_opaque(iteration), copies); };
        const Stmt ahead = IfThenElse::make(here + 1 < op->min + op->extent, copies_of(here + 1));
        const Stmt loop = For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                                    mutate(copying_ahead(body, ahead, arrays_, shared_)));
        Stmt all = simplify(Block::make({IfThenElse::make(op->extent > 0, copies_of(op->min)), close, loop}));
        for (const auto &[name, load] : same.loads) all = LetStmt::make(name, load, all);
        return all;
    }

public:
    SharedAddresses()
        : RequiredPass("a kernel that copies to shared memory asynchronously or loads matrices from it does neither") {}
};

}  // namespace

Expr matrices_in_shared_memory(const Expr &row, const Expr &e, bool transposed) {
    return Call::make(row.type(), transposed ? matrices_transposed : matrices, {row, e}, Call::Extern);
}

Expr copied_to_shared_memory(const Expr &address, const Expr &given) {
    return Call::make(UInt(32), copied, {address, given}, Call::Extern);
}

void pipeline_async_copies(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new SharedAddresses); }

}  // namespace attune
