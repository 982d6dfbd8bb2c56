#include "schedules/prefetch.h"
#include "schedules/require.h"
#include <algorithm>
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

// What `inner` reads of an input is fetched for when loops around it are further.
class Fetch : public IRMutator {
    bool begun_ = false;

protected:
    using IRMutator::visit;
    const std::string input_;
    const LoweredLoop inner_;
    bool found_ = false;

    Expr address(const Expr &bytes) const {
        return reinterpret(UInt(64), Variable::make(Handle(), input_)) + reinterpret(UInt(64), bytes);
    }
    static Expr counter(const std::string &loop) { return Variable::make(Int(32), loop); }
    static Stmt with_body(const For *op, const Stmt &body) {
        return For::make(op->name, op->min, op->extent, op->for_type, op->partition_policy, op->device_api, body);
    }

public:
    Fetch(const ImageParam &input, const LoweredLoop &inner) : input_(input.name()), inner_(inner) {}

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

// One prefetch for each line, ahead of the loads of a round.
class FetchLines : public Fetch {
    using Fetch::visit;
    const LoweredLoop outer_;
    const int rounds_;
    std::map<std::string, Expr> later_;  // what depends on the outer loop, as it will be

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
        if (outer) later_[op->name] = counter(op->name) + rounds_;
        const Stmt s = !later_.empty() && inner_.is(op->name) ? fetching(op) : IRMutator::visit(op);
        if (outer) later_.clear();
        return s;
    }

    Stmt fetching(const For *op) {
        Places places(input_);
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
        : Fetch(input, inner), outer_(outer), rounds_(rounds) {}
};

// Run by run: a run is what one load reads in all rounds, and each round fetches its part of all runs. Where these will begin is
// kept in a table, which is made once for all rounds.
class FetchRuns : public Fetch {
    using Fetch::visit;
    const std::vector<LoweredLoop> around_;
    const int rounds_, lines_of_run_;
    struct Step {
        std::string name;
        int loop;              // of around_; -1: a let
        Expr value, end = {};  // a loop's first one, and that behind its last
    };
    std::vector<Step> path_;  // from the outermost loop to where we are

    template<typename Node> Stmt body_after(const Step &step, const Node *op) {
        path_.push_back(step);
        const Stmt body = mutate(op->body);
        path_.pop_back();
        return body;
    }
    Stmt visit(const LetStmt *op) override {
        if (path_.empty()) return IRMutator::visit(op);
        return LetStmt::make(op->name, op->value, body_after({op->name, -1, op->value}, op));
    }
    Stmt visit(const For *op) override {
        if (inner_.is(op->name)) return fetching(op);
        const auto at = std::find_if(around_.begin(), around_.end(), [&](const LoweredLoop &l) { return l.is(op->name); });
        if (at == around_.end()) return IRMutator::visit(op);
        return with_body(op, body_after({op->name, int(at - around_.begin()), op->min, op->min + op->extent}, op));
    }

    // The place when loop `next` is one round further and those inside it begin.
    Expr place_later(Expr place, int next) const {
        for (auto step = path_.rbegin(); step != path_.rend(); step++) {
            if (step->loop < next)
                place = substitute(step->name, step->value, place);
            else if (step->loop == next)
                place = substitute(step->name, counter(step->name) + 1, place);
        }
        return place;
    }
    // The same for the innermost loop that has another round.
    Expr next_place(const Expr &place) const {
        Expr later;
        for (const Step &step : path_) {
            if (step.loop < 0) continue;
            const Expr then = place_later(place, step.loop);
            later = later.defined() ? Select::make(counter(step.name) + 1 < step.end, then, later) : then;
        }
        return later;
    }

    Stmt fetching(const For *op) {
        Places places(input_);
        op->body.accept(&places);
        const int runs = int(places.found.size());
        if (runs == 0) return op;
        found_ = true;
        require(rounds_ % runs == 0 || runs % rounds_ == 0,
                std::to_string(runs) + " rows are not fetched in runs by " + std::to_string(rounds_) + " rounds");
        const int runs_of_round = std::max(runs / rounds_, 1), rounds_of_run = std::max(rounds_ / runs, 1);
        const int lines = (lines_of_run_ + rounds_of_run - 1) / rounds_of_run;
        const std::string table = unique_name("runs");
        const Expr round = counter(op->name) - op->min;
        std::vector<Stmt> body, all;
        for (int n = 0; n < runs_of_round; n++) {
            const Expr run = clamp(round / rounds_of_run * runs_of_round + n, 0, runs - 1);
            const Expr place = Load::make(Int(32), table, run, {}, {}, const_true(), {});
            const Expr first = address(cast<int64_t>(place) * places.element_bytes +
                                       cast<int64_t>(round % rounds_of_run) * (lines * cache_line_bytes));
            for (int line = 0; line < lines; line++)
                body.push_back(fetch_into_all_caches(first + make_const(UInt(64), line * cache_line_bytes)));
        }
        body.push_back(op->body);
        for (int n = 0; n < runs; n++) {
            const Expr begin = next_place(substitute(op->name, op->min, places.found[n]));
            all.push_back(Store::make(table, begin, n, {}, const_true(), {}));
        }
        all.push_back(with_body(op, Block::make(body)));
        return Allocate::make(table, Int(32), MemoryType::Stack, {runs}, const_true(), Block::make(all));
    }

public:
    FetchRuns(const ImageParam &input, const LoweredLoop &inner, const std::vector<LoweredLoop> &around, int rounds,
              int lines_of_run)
        : Fetch(input, inner), around_(around), rounds_(rounds), lines_of_run_(lines_of_run) {}
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
    if (rounds > 0) pipeline.add_custom_lowering_pass(new FetchLines(input, inner, outer, rounds));
}

void fetch_runs(Pipeline pipeline, const ImageParam &input, const LoweredLoop &inner, const std::vector<LoweredLoop> &around,
                int rounds, int lines_of_run) {
    pipeline.add_custom_lowering_pass(new FetchRuns(input, inner, around, rounds, lines_of_run));
}

void fetch_ahead(Stage stage, const ImageParam &input, const RVar &loop, int rounds) {
    if (rounds > 0) stage.prefetch(input, loop, loop, rounds, PrefetchBoundStrategy::NonFaulting);
}

void fetch_into_caches(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new IntoCaches); }

}  // namespace attune
