#include "schedules/matrix_tiles.h"
#include <optional>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// What Halide 21 makes of one tile: zeroed, added to in a loop over steps, copied.
struct LoweredTile {
    std::string name;
    Type type;
    Stmt zero, loop, add, copy;  // no loop where there is one step
};

class ReadTile : public IRVisitor {
    using IRVisitor::visit;
    std::map<std::string, Expr> lets_;

    Stmt written_out(Stmt s) const {
        for (;;) {
            Stmt next = substitute(lets_, s);
            if (next.same_as(s)) return s;
            s = next;
        }
    }
    void visit(const LetStmt *op) override {
        lets_[op->name] = op->value;
        IRVisitor::visit(op);
    }
    void visit(const For *op) override {
        sum.loop = written_out(
            For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, Evaluate::make(0)));
        IRVisitor::visit(op);
    }
    void visit(const Store *op) override {
        const Call *call = op->value.as<Call>();
        if (call && call->name == "tile_zero") sum.zero = op;
        if (call && call->name == "tile_matmul") sum.add = written_out(op);
    }
    void visit(const Evaluate *op) override {
        const Call *call = op->value.as<Call>();
        if (call && call->name == "tile_store") sum.copy = written_out(op);
    }

public:
    LoweredTile sum;
};

class Renamed : public IRMutator {
    using IRMutator::visit;
    const std::string &from_, &to_;

    Expr visit(const Load *op) override {
        if (op->name != from_) return IRMutator::visit(op);
        return Load::make(op->type, to_, op->index, op->image, op->param, op->predicate, op->alignment);
    }
    Stmt visit(const Store *op) override {
        if (op->name != from_) return IRMutator::visit(op);
        return Store::make(to_, mutate(op->value), op->index, op->param, op->predicate, op->alignment);
    }

public:
    Renamed(const std::string &from, const std::string &to) : from_(from), to_(to) {}
};

class JoinTiles : public IRMutator {
    using IRMutator::visit;

    static std::optional<LoweredTile> tile_sum(const Stmt &s) {
        const Allocate *allocate = s.as<Allocate>();
        if (!allocate || allocate->memory_type != MemoryType::AMXTile) return {};
        ReadTile read;
        allocate->body.accept(&read);
        LoweredTile &sum = read.sum;
        sum.name = allocate->name, sum.type = allocate->type;
        if (!sum.zero.defined() || !sum.add.defined() || !sum.copy.defined())
            throw CompileError("attune: " + sum.name + " is no sum of matrix tiles\n");
        return sum;
    }

    static Stmt joined(const std::vector<LoweredTile> &sums) {
        std::vector<Stmt> zeroed, added, copied;
        std::vector<std::string> names;
        for (const LoweredTile &sum : sums) {
            if (!equal(sum.loop, sums[0].loop)) throw CompileError("attune: tiles of " + sum.name + " differ in their steps\n");
            names.push_back(sum.name + "." + std::to_string(names.size()));
            Renamed renamed(sum.name, names.back());
            zeroed.push_back(renamed.mutate(sum.zero));
            added.push_back(renamed.mutate(sum.add));
            copied.push_back(renamed.mutate(sum.copy));
        }
        Stmt steps = Block::make(added);
        if (const For *loop = sums[0].loop.as<For>())
            steps =
                For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy, loop->device_api, steps);
        Stmt all = Block::make({Block::make(zeroed), steps, Block::make(copied)});
        for (const std::string &name : names)
            all = Allocate::make(name, sums[0].type, MemoryType::AMXTile, {1}, const_true(), all);
        return all;
    }

    Stmt visit(const Block *op) override {
        std::vector<Stmt> result;
        std::vector<LoweredTile> sums;
        const auto end_of_tiles = [&] {
            if (sums.size() > 1) result.back() = joined(sums);
            sums.clear();
        };
        Stmt rest = op;
        while (rest.defined()) {
            const Block *block = rest.as<Block>();
            const Stmt first = block ? block->first : rest;
            rest = block ? block->rest : Stmt();
            const auto sum = tile_sum(first);
            if (!sum) end_of_tiles();
            if (!sum || sums.empty()) result.push_back(mutate(first));
            if (sum) sums.push_back(*sum);
        }
        end_of_tiles();
        return Block::make(result);
    }
};

}  // namespace

void join_matrix_tiles(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new JoinTiles); }

}  // namespace attune
