#include "schedules/prefetch.h"
#include "schedules/require.h"
#include <cstdlib>
#include <map>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

Stmt fetch_into_all_caches(const Expr &address) {
    constexpr int read = 0, all_caches = 3, data = 1;
    return Evaluate::make(
        Call::make(Int(32), "llvm.prefetch.p0", {reinterpret(Handle(), address), read, all_caches, data}, Call::Extern));
}

class IntoCaches : public IRMutator {
    using IRMutator::visit;

    static const Call *prefetch_in(const Stmt &s) {
        const Evaluate *evaluate = s.as<Evaluate>();
        const Call *call = evaluate ? evaluate->value.as<Call>() : nullptr;
        return call && call->is_intrinsic(Call::prefetch) ? call : nullptr;
    }
    // The line that is `line` lines behind the place.
    static Stmt fetched(const Call *op, const Expr &place, const Expr &line) {
        const Expr bytes = cast<int64_t>(place) * op->type.bytes(), behind = cast<int64_t>(line) * cache_line_bytes;
        return fetch_into_all_caches(reinterpret(UInt(64), op->args[0]) + reinterpret(UInt(64), bytes) +
                                     reinterpret(UInt(64), behind));
    }

    Stmt visit(const Evaluate *op) override {
        const Call *prefetch = prefetch_in(op);
        return prefetch ? fetched(prefetch, prefetch->args[1], 0) : op;
    }
    // Halide 21 counts the lines of a row in bytes and steps through them in elements.
    Stmt visit(const For *op) override {
        const Call *prefetch = prefetch_in(op->body);
        if (!prefetch || !starts_with(op->name, "prefetch_split")) return IRMutator::visit(op);
        const Expr row = substitute(op->name, 0, prefetch->args[1]);
        const auto lines = as_const_int(op->extent);
        if (!lines)
            return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api,
                             fetched(prefetch, row, Variable::make(Int(32), op->name)));
        std::vector<Stmt> all;
        for (int n = 0; n < *lines; n++) all.push_back(fetched(prefetch, row, n));
        return Block::make(all);
    }
};

// Where the loads of a buffer begin, one of those that share a line.
class Places : public IRVisitor {
    using IRVisitor::visit;
    const std::string &buffer_;
    std::map<std::string, Expr> lets_;  // those around

    template<typename T> void visit_let(const T *op) {
        op->value.accept(this);
        lets_[op->name] = substitute(lets_, op->value);
        op->body.accept(this);
        lets_.erase(op->name);
    }
    void visit(const Let *op) override { visit_let(op); }
    void visit(const LetStmt *op) override { visit_let(op); }
    void visit(const Load *op) override {
        IRVisitor::visit(op);
        const Ramp *ramp = op->index.as<Ramp>();
        const Expr place = substitute(lets_, ramp ? ramp->base : op->index);
        if (op->name != buffer_ || !place.type().is_scalar()) return;
        element_bytes = op->type.bytes();
        for (const Expr &other : found) {
            const auto apart = as_const_int(simplify(place - other));
            if (apart && std::abs(*apart) * element_bytes < cache_line_bytes) return;
        }
        found.push_back(place);
    }

public:
    std::vector<Expr> found;  // in elements
    int element_bytes = 1;
    explicit Places(const std::string &buffer) : buffer_(buffer) {}
};

// One prefetch for each line, ahead of the loads of a round.
class FetchForLater : public IRMutator {
    using IRMutator::visit;
    const std::string input_;
    const LoweredLoop inner_, outer_;
    const int rounds_;
    std::map<std::string, Expr> later_;  // what depends on the outer loop, as it will be
    bool begun_ = false, found_ = false;

    // A let that depends on the outer loop is there once more, with its value of later: so what it divides is divided outside the
    // inner loops.
    Stmt visit(const LetStmt *op) override {
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
        if (outer) later_[op->name] = Variable::make(Int(32), op->name) + rounds_;
        const Stmt s = !later_.empty() && inner_.is(op->name) ? fetching(op) : IRMutator::visit(op);
        if (outer) later_.clear();
        return s;
    }

    Stmt fetching(const For *op) {
        Places places(input_);
        op->body.accept(&places);
        std::vector<Stmt> round;
        for (const Expr &place : places.found) {
            const Expr bytes = cast<int64_t>(substitute(later_, place)) * places.element_bytes;
            round.push_back(
                fetch_into_all_caches(reinterpret(UInt(64), Variable::make(Handle(), input_)) + reinterpret(UInt(64), bytes)));
            found_ = true;
        }
        round.push_back(op->body);
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, Block::make(round));
    }

public:
    FetchForLater(const ImageParam &input, const LoweredLoop &inner, const LoweredLoop &outer, int rounds)
        : input_(input.name()), inner_(inner), outer_(outer), rounds_(rounds) {}

    using IRMutator::mutate;
    Stmt mutate(const Stmt &s) override {
        if (begun_) return IRMutator::mutate(s);
        begun_ = true, found_ = false;
        const Stmt whole = IRMutator::mutate(s);
        begun_ = false;
        require(found_, "nothing to fetch: no loop over " + inner_.var + " of " + inner_.func.name() + " reads " + input_);
        return whole;
    }
};

}  // namespace

bool LoweredLoop::is(const std::string &name) const {
    // Halide's names: fused. for loops that compute_with joins, one more part for each split.
    const std::string of_stage = func.name() + ".s" + std::to_string(stage) + ".";
    for (const std::string &begin : {of_stage + var, of_stage + "fused." + var})
        if (name == begin || starts_with(name, begin + ".")) return true;
    return false;
}

void fetch_for_later(Pipeline pipeline, const ImageParam &input, const LoweredLoop &inner, const LoweredLoop &outer,
                     int rounds) {
    if (rounds > 0) pipeline.add_custom_lowering_pass(new FetchForLater(input, inner, outer, rounds));
}

void fetch_ahead(Stage stage, const ImageParam &input, const RVar &loop, int rounds) {
    if (rounds > 0) stage.prefetch(input, loop, loop, rounds, PrefetchBoundStrategy::NonFaulting);
}

void fetch_into_caches(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new IntoCaches); }

}  // namespace attune
