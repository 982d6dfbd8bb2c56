// SPDX-License-Identifier: MIT
#include "lowering/passes/join_amx_tiles.h"
#include "lowering/required_pass.h"
#include <optional>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

// Halide 21's code of one tile: zeroed, added to in loops over steps, one for each update, copied.
struct LoweredTile {
    struct Sum {
        Stmt loop, add;  // with one step there is no loop
    };
    std::string name;
    Type type;
    Stmt zero, copy;
    std::vector<Sum> sums;
};

class ReadTile : public IRVisitor {
    using IRVisitor::visit;
    std::map<std::string, Expr> lets_;
    Stmt loop_;

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
        loop_ = written_out(
            For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, Evaluate::make(0)));
        IRVisitor::visit(op);
        loop_ = Stmt();
    }
    void visit(const Store *op) override {
        const Call *call = op->value.as<Call>();
        if (call && call->name == "tile_zero") tile.zero = op;
        if (call && call->name == "tile_matmul") tile.sums.push_back({loop_, written_out(op)});
    }
    void visit(const Evaluate *op) override {
        const Call *call = op->value.as<Call>();
        if (call && call->name == "tile_store") tile.copy = written_out(op);
    }

public:
    LoweredTile tile;
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

class JoinTiles : public RequiredPass {
    using RequiredPass::visit;

    static std::optional<LoweredTile> tile_of(const Stmt &s) {
        const Allocate *allocate = s.as<Allocate>();
        if (!allocate || allocate->memory_type != MemoryType::AMXTile) return {};
        ReadTile read;
        allocate->body.accept(&read);
        LoweredTile &tile = read.tile;
        tile.name = allocate->name, tile.type = allocate->type;
        if (!tile.zero.defined() || tile.sums.empty() || !tile.copy.defined())
            throw CompileError("attune: " + tile.name + " is no sum of AMX tiles\n");
        return tile;
    }

    static Stmt joined(const std::vector<LoweredTile> &tiles) {
        const LoweredTile &first = tiles[0];
        std::vector<Stmt> zeroed, copied;
        std::vector<std::vector<Stmt>> added(first.sums.size());
        std::vector<std::string> names;
        for (const LoweredTile &tile : tiles) {
            names.push_back(tile.name + "." + std::to_string(names.size()));
            Renamed renamed(tile.name, names.back());
            zeroed.push_back(renamed.mutate(tile.zero));
            copied.push_back(renamed.mutate(tile.copy));
            for (std::size_t n = 0; n < added.size(); n++) {
                if (tile.sums.size() != added.size() || !equal(tile.sums[n].loop, first.sums[n].loop))
                    throw CompileError("attune: tiles of " + tile.name + " differ in their steps\n");
                added[n].push_back(renamed.mutate(tile.sums[n].add));
            }
        }
        std::vector<Stmt> all = {Block::make(zeroed)};
        for (std::size_t n = 0; n < added.size(); n++) {
            const For *loop = first.sums[n].loop.as<For>();
            const Stmt steps = Block::make(added[n]);
            all.push_back(loop ? For::make(loop->name, loop->min, loop->extent, loop->for_type, loop->partition_policy,
                                           loop->device_api, steps)
                               : steps);
        }
        all.push_back(Block::make(copied));
        Stmt result = Block::make(all);
        for (const std::string &name : names)
            result = Allocate::make(name, first.type, MemoryType::AMXTile, {1}, const_true(), result);
        return result;
    }

    Stmt visit(const Block *op) override {
        std::vector<Stmt> result;
        std::vector<LoweredTile> tiles;
        const auto end_of_tiles = [&] {
            if (tiles.size() > 1) result.back() = joined(tiles);
            tiles.clear();
        };
        Stmt rest = op;
        while (rest.defined()) {
            const Block *block = rest.as<Block>();
            const Stmt first = block ? block->first : rest;
            rest = block ? block->rest : Stmt();
            const auto tile = tile_of(first);
            if (!tile) end_of_tiles();
            if (!tile || tiles.empty()) result.push_back(mutate(first));
            if (tile) tiles.push_back(*tile), found_ = true;
        }
        end_of_tiles();
        return Block::make(result);
    }
    // A tile without neighbours in its block.
    Stmt visit(const Allocate *op) override {
        found_ = found_ || op->memory_type == MemoryType::AMXTile;
        return RequiredPass::visit(op);
    }

public:
    JoinTiles() : RequiredPass("a kernel whose AMX tiles are to be joined has none") {}
};

}  // namespace

void join_amx_tiles(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new JoinTiles); }

}  // namespace attune
