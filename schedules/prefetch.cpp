#include "schedules/prefetch.h"
#include "schedules/require.h"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

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

// The loads of a buffer in the first round of a loop, for all rounds of those around it whose number is known.
class RunBegins : public IRVisitor {
    using IRVisitor::visit;
    const std::string &buffer_;
    const LoweredLoop &loop_;
    std::vector<std::pair<std::string, Expr>> lets_;  // those around, and loops in their first round
    std::vector<std::pair<std::string, int>> loops_;  // those of which all rounds count: their name and how many

    void visit(const LetStmt *op) override {
        lets_.emplace_back(op->name, op->value);
        op->body.accept(this);
        lets_.pop_back();
    }
    void visit(const For *op) override {
        const bool here = loop_.is(op->name);
        const auto rounds = as_const_int(op->extent);
        const bool all = !here && rounds && is_const_zero(op->min);
        if (all)
            loops_.emplace_back(op->name, int(*rounds));
        else
            lets_.emplace_back(op->name, op->min);
        if (here && found.empty())
            add(op->body);
        else
            op->body.accept(this);
        all ? loops_.pop_back() : lets_.pop_back();
    }
    void add(const Stmt &round) {
        Places places(buffer_);
        round.accept(&places);
        element_bytes = places.element_bytes;
        std::vector<Expr> begins = places.found;
        for (Expr &begin : begins)
            for (auto let = lets_.rbegin(); let != lets_.rend(); let++) begin = substitute(let->first, let->second, begin);
        for (const auto &[name, rounds] : loops_) {
            std::vector<Expr> of_rounds;
            for (int n = 0; n < rounds; n++)
                for (const Expr &begin : begins) of_rounds.push_back(substitute(name, n, begin));
            begins = of_rounds;
        }
        found = begins;
    }

public:
    std::vector<Expr> found;  // in elements
    int element_bytes = 1;
    RunBegins(const std::string &buffer, const LoweredLoop &loop) : buffer_(buffer), loop_(loop) {}
};

// Run by run: a run is what one load reads in all rounds of a loop. Where those of the next time begin is kept in a table.
class FetchRuns : public Fetch {
    using Fetch::visit;
    const FetchedRuns runs_;
    struct Step {
        std::string name;
        int loop;              // of runs_.around; -1: a let
        Expr value, end = {};  // a loop's first one, and that behind its last
    };
    std::vector<Step> path_;  // from the outermost loop to where we are
    std::string table_;       // where there is one
    int runs_of_table_ = 0, lines_ = 0, element_bytes_ = 1;
    // Of the loops over which the lines are spread: how many rounds there were, and whether those count.
    Expr round_, within_;
    Expr step_;  // of lines, in parts of `whole_line`, a round; not defined where that is a constant
    static constexpr int whole_line = 1 << 16;
    bool whole_rows() const { return runs_.lines == FetchedRuns::whole_rows; }

    template<typename Node> Stmt body_after(const Step &step, const Node *op) {
        path_.push_back(step);
        const Stmt body = step.loop == 0 ? with_table(op->body) : mutate(op->body);
        path_.pop_back();
        return body;
    }
    Stmt visit(const LetStmt *op) override {
        if (path_.empty() || !table_.empty()) return IRMutator::visit(op);
        return LetStmt::make(op->name, op->value, body_after({op->name, -1, op->value}, op));
    }
    Stmt visit(const For *op) override {
        const auto is_here = [&](const LoweredLoop &l) { return l.is(op->name); };
        if (!table_.empty()) {
            for (const FetchedRuns::Spread &spread : runs_.spread)
                if (is_here(spread.loop)) return spread_over(spread, op);
            return IRMutator::visit(op);
        }
        // Of the first loop around that has one round only nothing is left.
        if (!path_.empty() && is_here(runs_.spread.front().loop)) return with_table(op);
        const auto at = std::find_if(runs_.around.begin(), runs_.around.end(), is_here);
        if (at == runs_.around.end()) return IRMutator::visit(op);
        return with_body(op, body_after({op->name, int(at - runs_.around.begin()), op->min, op->min + op->extent}, op));
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
        if (runs_.this_time.defined()) return place;
        Expr later;
        for (const Step &step : path_) {
            if (step.loop < 0) continue;
            const Expr then = place_later(place, step.loop);
            later = later.defined() ? Select::make(counter(step.name) + 1 < step.end, then, later) : then;
        }
        return later;
    }

    Stmt with_table(const Stmt &body) {
        RunBegins begins(input_, inner_);
        body.accept(&begins);
        if (begins.found.empty()) return body;
        const int runs = int(begins.found.size());
        runs_of_table_ = runs, lines_ = runs * runs_.lines, element_bytes_ = begins.element_bytes;
        table_ = unique_name("runs");
        round_ = 0, within_ = const_true();
        std::vector<Stmt> all;
        for (int n = 0; n < runs; n++) all.push_back(Store::make(table_, next_place(begins.found[n]), n, {}, const_true(), {}));
        if (runs_.this_time.defined()) {
            within_ = runs_.this_time;
            all = {IfThenElse::make(within_, Block::make(all))};
        }
        all.push_back(mutate(body));
        const Stmt whole = Allocate::make(table_, Int(32), MemoryType::Stack, {runs}, const_true(), Block::make(all));
        table_.clear();
        return whole;
    }

    Stmt spread_over(const FetchedRuns::Spread &spread, const For *op) {
        const Expr round = round_, within = within_, n = counter(op->name) - op->min;
        const auto extent = as_const_int(op->extent);
        std::string step;
        if (spread.over_all) {
            round_ = round * op->extent + n;
            step = unique_name("step"), step_ = Variable::make(Int(32), step);
        } else {
            round_ = round * spread.rounds + n;
            if (!extent || *extent > spread.rounds) within_ = within && n < spread.rounds;
        }
        const bool innermost = &spread == &runs_.spread.back();
        Stmt loop = with_body(op, innermost ? Block::make(fetches(), op->body) : mutate(op->body));
        if (!step.empty()) {
            loop = LetStmt::make(step, lines_ * whole_line / (op->extent * (rounds() / spread.rounds)), loop);
            step_ = {};
        }
        round_ = round, within_ = within;
        return loop;
    }
    int rounds() const {
        int all = 1;
        for (const FetchedRuns::Spread &s : runs_.spread) all *= s.rounds;
        return all;
    }
    Stmt fetch_line(const Expr &run, const Expr &line, int neighbours) const {
        const Expr place = Load::make(Int(32), table_, run, {}, {}, const_true(), {});
        const Expr begin = address(cast<int64_t>(place) * element_bytes_ + cast<int64_t>(line) * cache_line_bytes);
        std::vector<Stmt> all;
        for (int n = 0; n < neighbours; n++)
            all.push_back(fetch_into_all_caches(begin + make_const(UInt(64), n * cache_line_bytes)));
        return Block::make(all);
    }
    // A round reads a line of each row.
    Stmt fetches_of_rows() const {
        const Expr elements = Variable::make(Int(32), input_ + ".extent.0");
        const Expr lines = max(cast<uint32_t>(elements) / (cache_line_bytes / element_bytes_), cast<uint32_t>(1));
        const Expr first = cast<uint32_t>(round_ * runs_of_table_);
        return fetch_line(cast<int>(first / lines), cast<int>(first % lines), runs_of_table_);
    }
    Stmt fetches() {
        found_ = true;
        if (whole_rows()) return fetches_of_rows();
        const int lines_of_round = (lines_ + rounds() - 1) / rounds();
        const bool evenly = !step_.defined() && lines_ % rounds() == 0;
        const int neighbours = evenly ? std::gcd(lines_of_round, runs_.lines) : 1;  // whose address is computed once
        const Expr first = step_.defined() ? round_ * step_ / whole_line
                           : evenly        ? round_ * lines_of_round
                                           : round_ * lines_ / rounds();
        std::vector<Stmt> all;
        for (int n = 0; n < lines_of_round; n += neighbours) {
            const Expr line = evenly ? first + n : min(first + n, lines_ - 1);
            all.push_back(fetch_line(line / runs_.lines, line % runs_.lines, neighbours));
        }
        return IfThenElse::make(within_, Block::make(all));
    }

public:
    FetchRuns(const ImageParam &input, const FetchedRuns &runs) : Fetch(input, runs.reads), runs_(runs) {}
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

void fetch_runs(Pipeline pipeline, const ImageParam &input, const FetchedRuns &runs) {
    pipeline.add_custom_lowering_pass(new FetchRuns(input, runs));
}

void fetch_ahead(Stage stage, const ImageParam &input, const RVar &loop, int rounds) {
    if (rounds > 0) stage.prefetch(input, loop, loop, rounds, PrefetchBoundStrategy::NonFaulting);
}

void fetch_into_caches(Pipeline pipeline) { pipeline.add_custom_lowering_pass(new IntoCaches); }

}  // namespace attune
