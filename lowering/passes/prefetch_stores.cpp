// SPDX-License-Identifier: MIT
// Prefetch of the lines that a later loop stores.
#include "lowering/passes/prefetch_parts.h"
#include <utility>

namespace attune {
using namespace prefetch_parts;

namespace {

// The place at which a loop begins to store an output, in terms of the loops around the code that is visited.
class StoreBegin : public IRVisitor {
    using IRVisitor::visit;
    const std::string &output_;
    const LoweredLoop &loop_;
    std::vector<std::pair<std::string, Expr>> lets_;  // lets around, and loops in their first round
    bool here_ = false;

    void visit_body(const std::string &name, const Expr &value, const Stmt &body) {
        lets_.emplace_back(name, value);
        body.accept(this);
        lets_.pop_back();
    }
    void visit(const LetStmt *op) override { visit_body(op->name, op->value, op->body); }
    void visit(const For *op) override {
        const bool outside = std::exchange(here_, here_ || loop_.is(op->name));
        visit_body(op->name, op->min, op->body);
        here_ = outside;
    }
    void visit(const Store *op) override {
        if (!here_ || found.defined() || op->name != output_) return;
        const Ramp *ramp = op->index.as<Ramp>();
        Expr place = ramp ? ramp->base : op->index;
        for (auto let = lets_.rbegin(); let != lets_.rend(); let++) place = substitute(let->first, let->second, place);
        found = cast<int64_t>(place) * op->value.type().bytes();
    }

public:
    Expr found;  // in bytes
    StoreBegin(const std::string &output, const LoweredLoop &loop) : output_(output), loop_(loop) {}
};

class FetchStores : public Fetch {
    using Fetch::visit;
    const LoweredLoop beside_;
    const int lines_;
    Expr begin_;  // in bytes, as known inside the innermost loop around both loops

    Stmt visit(const For *op) override {
        if (begin_.defined() && beside_.is(op->name)) return fetching(op);
        StoreBegin begin(buffer_, inner_);
        op->body.accept(&begin);
        const Expr outside = begin_;
        if (begin.found.defined()) begin_ = begin.found;
        const Stmt s = IRMutator::visit(op);
        begin_ = outside;
        return s;
    }

    Stmt fetching(const For *op) {
        found_ = true;
        const Expr round = cast<int64_t>(counter(op->name) - op->min);
        std::vector<Stmt> body;
        for (int n = 0; n < lines_; n++)
            body.push_back(fetch_into_all_caches(address(begin_ + (round * lines_ + n) * cache_line_bytes)));
        body.push_back(op->body);
        return with_body(op, Block::make(body));
    }

public:
    explicit FetchStores(const PrefetchStores &stores)
        : Fetch(stores.stores.func.name(), stores.stores, "stores"), beside_(stores.beside), lines_(stores.lines) {}
};

}  // namespace

IRMutator *prefetch_pass(const PrefetchStores &stores) { return new FetchStores(stores); }

}  // namespace attune
