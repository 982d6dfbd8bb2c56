// SPDX-License-Identifier: MIT
#include "lowering/passes/prefetch_parts.h"
#include <set>

namespace attune {
using namespace prefetch_parts;

namespace {

// Halide's prefetches of some inputs, changed to fetch into all caches.
class IntoCaches : public RequiredPass {
    using RequiredPass::visit;
    const std::set<std::string> inputs_;

    const Call *prefetch_in(const Stmt &s) const {
        const Evaluate *evaluate = s.as<Evaluate>();
        const Call *call = evaluate ? evaluate->value.as<Call>() : nullptr;
        if (!call || !call->is_intrinsic(Call::prefetch)) return nullptr;
        const Variable *input = call->args[0].as<Variable>();
        return input && inputs_.count(input->name) ? call : nullptr;
    }
    // Prefetch of the line that is `line` lines behind the place.
    static Stmt fetched(const Call *op, const Expr &place, const Expr &line) {
        const Expr bytes = cast<int64_t>(place) * op->type.bytes(), behind = cast<int64_t>(line) * cache_line_bytes;
        return fetch_into_all_caches(reinterpret(UInt(64), op->args[0]) + reinterpret(UInt(64), bytes) +
                                     reinterpret(UInt(64), behind));
    }

    Stmt visit(const Evaluate *op) override {
        const Call *prefetch = prefetch_in(op);
        if (!prefetch) return op;
        found_ = true;
        return fetched(prefetch, prefetch->args[1], 0);
    }
    // Halide 21 counts the lines of a row in bytes and steps through them in elements.
    Stmt visit(const For *op) override {
        const Call *prefetch = prefetch_in(op->body);
        if (!prefetch || !starts_with(op->name, "prefetch_split")) return RequiredPass::visit(op);
        found_ = true;
        const Expr row = substitute(op->name, 0, prefetch->args[1]);
        const auto lines = as_const_int(op->extent);
        if (!lines)
            return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                             fetched(prefetch, row, Variable::make(Int(32), op->name)));
        std::vector<Stmt> all;
        for (int n = 0; n < *lines; n++) all.push_back(fetched(prefetch, row, n));
        return Block::make(all);
    }

public:
    explicit IntoCaches(const std::set<std::string> &inputs)
        : RequiredPass("a kernel whose prefetches are to go into all caches has none"), inputs_(inputs) {}
};

// One prefetch for each line, ahead of the loads of a round.
class FetchLines : public Fetch {
    using Fetch::visit;
    const LoweredLoop outer_;
    const int rounds_;
    Lets around_;  // lets around
    Lets later_;   // values that depend on the outer loop, in its later round

    Stmt visit(const LetStmt *op) override {
        around_[op->name] = op->value;
        const Stmt s = with_later_value(op);
        around_.erase(op->name);
        return s;
    }
    // A let that depends on the outer loop is duplicated with its later value, so that its divisions stay outside the inner
    // loops.
    Stmt with_later_value(const LetStmt *op) {
        const Expr value = substitute(later_, op->value);
        if (equal(value, op->value)) return IRMutator::visit(op);
        const std::string name = unique_name(op->name + ".later");
        later_[op->name] = Variable::make(value.type(), name);
        const Stmt body = mutate(op->body);
        later_.erase(op->name);
        return LetStmt::make(op->name, op->value, LetStmt::make(name, value, body));
    }

    Stmt visit(const For *op) override {
        const bool outer = later_.empty() && outer_.is(op->name);
        if (outer) later_[op->name] = counter(op->name) + rounds_;
        const Stmt s = !later_.empty() && inner_.is(op->name) ? fetching(op) : IRMutator::visit(op);
        if (outer) later_.clear();
        return s;
    }

    Stmt fetching(const For *op) {
        Places places(buffer_, around_);
        op->body.accept(&places);
        std::vector<Stmt> round;
        for (const Expr &place : places.found)
            round.push_back(fetch_into_all_caches(address(cast<int64_t>(substitute(later_, place)) * places.element_bytes)));
        found_ = found_ || !round.empty();
        round.push_back(op->body);
        return with_body(op, Block::make(round));
    }

public:
    FetchLines(const ImageParam &input, const LoweredLoop &inner, const LoweredLoop &outer, int rounds)
        : Fetch(input.name(), inner), outer_(outer), rounds_(rounds) {}
};

}  // namespace

static IRMutator *prefetch_pass(const ImageParam &input, const PrefetchLines &lines) {
    return new FetchLines(input, lines.inner, lines.outer, lines.rounds);
}

void add_prefetches(Pipeline pipeline, const std::vector<Prefetch> &prefetches) {
    std::set<std::string> into_caches;
    for (const Prefetch &prefetch : prefetches) {
        const auto *region = std::get_if<PrefetchRegion>(&prefetch.what);
        if (!region || is_const_zero(region->rounds)) continue;
        Stage(region->stage)
            .prefetch(prefetch.input, region->loop, region->loop, region->rounds, PrefetchBoundStrategy::NonFaulting);
        if (!region->non_temporal) into_caches.insert(prefetch.input.name());
    }
    if (!into_caches.empty()) pipeline.add_custom_lowering_pass(new IntoCaches(into_caches));
    for (const auto &[input, what] : prefetches) {
        if (const auto *lines = std::get_if<PrefetchLines>(&what); lines && lines->rounds > 0)
            pipeline.add_custom_lowering_pass(prefetch_pass(input, *lines));
        else if (const auto *runs = std::get_if<PrefetchRuns>(&what))
            pipeline.add_custom_lowering_pass(prefetch_pass(input, *runs));
        else if (const auto *rows = std::get_if<PrefetchRows>(&what))
            pipeline.add_custom_lowering_pass(prefetch_pass(input, *rows));
        else if (const auto *stores = std::get_if<PrefetchStores>(&what))
            pipeline.add_custom_lowering_pass(prefetch_pass(*stores));
    }
}

}  // namespace attune
