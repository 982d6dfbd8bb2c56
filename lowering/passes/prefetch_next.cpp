// SPDX-License-Identifier: MIT
// Prefetch of the reads of loops after the loops around them go on.
#include "lowering/passes/prefetch_parts.h"
#include <algorithm>
#include <numeric>

namespace attune {
using namespace prefetch_parts;

namespace {

// The loads of a buffer in the first round of a loop, for all rounds of the loops around it that have a known number of rounds.
class RunBegins : public IRVisitor {
    using IRVisitor::visit;
    const std::string &buffer_;
    const LoweredLoop &loop_;
    std::vector<std::pair<std::string, Expr>> lets_;  // lets around, and loops in their first round
    std::vector<std::pair<std::string, int>> loops_;  // loops of which all rounds count: name and number of rounds

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
        const Lets around(lets_.begin(), lets_.end());
        Places places(buffer_, around);
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

// Puts a fetch before each statement that loads from a buffer: in one burst of fetches, a processor may lack free line buffers
// for some.
class BesideLoads : public IRMutator {
    using IRMutator::visit;
    const std::string &buffer_;
    const std::vector<Stmt> &fetches_;
    size_t next_ = 0;

    struct Finds : public IRVisitor {
        using IRVisitor::visit;
        const std::string &buffer;
        bool found = false;
        explicit Finds(const std::string &buffer) : buffer(buffer) {}
        void visit(const Load *op) override { found = found || op->name == buffer; }
    };
    template<typename Node> Stmt after_fetch(const Node *op) {
        Finds finds(buffer_);
        op->value.accept(&finds);
        if (!finds.found || next_ == fetches_.size()) return IRMutator::visit(op);
        const Stmt fetch = fetches_[next_++];
        return Block::make(fetch, IRMutator::visit(op));
    }
    Stmt visit(const Store *op) override { return after_fetch(op); }
    Stmt visit(const LetStmt *op) override { return after_fetch(op); }

public:
    BesideLoads(const std::string &buffer, const std::vector<Stmt> &fetches) : buffer_(buffer), fetches_(fetches) {}
    Stmt operator()(const Stmt &body) {
        std::vector<Stmt> all = {mutate(body)};
        all.insert(all.end(), fetches_.begin() + next_, fetches_.end());  // rest, for statements with several loads
        return Block::make(all);
    }
};

// Prefetch of the next reads of loops. A table holds the addresses at which the loads of the next first round begin.
class FetchNext : public Fetch {
    using Fetch::visit;
    const std::vector<LoweredLoop> around_;
    struct Step {
        std::string name;
        int loop;              // of around_; -1: a let
        Expr value, end = {};  // first value and end of a loop
    };
    std::vector<Step> path_;  // from the outermost loop to the current one

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
        if (!table_.empty()) return inside(op);
        // If the first loop around has one round only, Halide leaves no loop.
        if (!path_.empty() && begins_inside(op)) return with_table(op);
        const auto is_here = [&](const LoweredLoop &l) { return l.is(op->name); };
        const auto at = std::find_if(around_.begin(), around_.end(), is_here);
        if (at == around_.end()) return IRMutator::visit(op);
        return with_body(op, body_after({op->name, int(at - around_.begin()), op->min, op->min + op->extent}, op));
    }

    // The place when loop `next` is one round further and the loops inside it begin.
    Expr place_later(Expr place, int next) const {
        for (auto step = path_.rbegin(); step != path_.rend(); step++) {
            if (step->loop < next)
                place = substitute(step->name, step->value, place);
            else if (step->loop == next)
                place = substitute(step->name, counter(step->name) + 1, place);
        }
        return place;
    }

    Stmt with_table(const Stmt &body) {
        RunBegins begins(buffer_, inner_);
        body.accept(&begins);
        if (begins.found.empty()) return body;
        runs_of_table_ = int(begins.found.size()), element_bytes_ = begins.element_bytes;
        place_type_ = begins.found[0].type();
        table_ = unique_name("runs");
        std::vector<Stmt> fill;
        for (int n = 0; n < runs_of_table_; n++)
            fill.push_back(Store::make(table_, place(begins.found[n]), n, {}, const_true(), {}));
        const Stmt whole = with_filled_table(Block::make(fill), body);
        const Stmt allocated = Allocate::make(table_, place_type_, MemoryType::Stack, {runs_of_table_}, const_true(), whole);
        table_.clear();
        return allocated;
    }

protected:
    std::string table_;  // name of the table, if there is one
    int runs_of_table_ = 0, element_bytes_ = 1;
    Type place_type_;  // of an index into the input

    virtual Stmt inside(const For *) = 0;               // a loop inside the loops around
    virtual bool begins_inside(const For *) const = 0;  // whether it may be the first loop that fetches
    virtual Stmt with_filled_table(const Stmt &fill, const Stmt &body) = 0;
    // The table's entry for a load that begins here in the first round.
    virtual Expr place(const Expr &begin) const { return next_place(begin); }

    // The place after the innermost loop that has another round goes on.
    Expr next_place(const Expr &place) const {
        Expr later;
        for (const Step &step : path_) {
            if (step.loop < 0) continue;
            const Expr then = place_later(place, step.loop);
            later = later.defined() ? Select::make(counter(step.name) + 1 < step.end, then, later) : then;
        }
        return later;
    }
    Lets lets_around() const {
        Lets lets;
        for (const Step &step : path_)
            if (step.loop < 0) lets[step.name] = step.value;
        return lets;
    }
    Expr begin_of(const Expr &run) const {
        return cast<int64_t>(Load::make(place_type_, table_, run, {}, {}, const_true(), {})) * element_bytes_;
    }

    FetchNext(const ImageParam &input, const LoweredLoop &reads, const std::vector<LoweredLoop> &around)
        : Fetch(input.name(), reads), around_(around) {}
};

// Prefetch run by run: a run is the reads of one load in all rounds of a loop.
class FetchRuns : public FetchNext {
    const PrefetchRuns runs_;
    // Number of rounds so far of the loops over which the lines are spread, and whether these rounds count.
    Expr round_, within_;
    Expr step_;  // lines a round, in parts of `whole_line`; not defined where constant
    static constexpr int whole_line = 1 << 16;

    bool begins_inside(const For *op) const override { return runs_.spread.front().loop.is(op->name); }
    Stmt inside(const For *op) override {
        for (const PrefetchRuns::Spread &spread : runs_.spread)
            if (spread.loop.is(op->name)) return spread_over(spread, op);
        return IRMutator::visit(op);
    }
    Expr place(const Expr &begin) const override { return runs_.this_time.defined() ? begin : next_place(begin); }
    Stmt with_filled_table(const Stmt &fill, const Stmt &body) override {
        round_ = 0, within_ = const_true();
        if (!runs_.this_time.defined()) return Block::make(fill, mutate(body));
        within_ = runs_.this_time;
        return Block::make(IfThenElse::make(within_, fill), mutate(body));
    }

    int lines() const { return runs_of_table_ * runs_.lines; }
    Stmt spread_over(const PrefetchRuns::Spread &spread, const For *op) {
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
            loop = LetStmt::make(step, lines() * whole_line / (op->extent * (rounds() / spread.rounds)), loop);
            step_ = {};
        }
        round_ = round, within_ = within;
        return loop;
    }
    int rounds() const {
        int all = 1;
        for (const PrefetchRuns::Spread &s : runs_.spread) all *= s.rounds;
        return all;
    }
    Stmt fetch_line(const Expr &run, const Expr &line, int neighbours) const {
        const Expr begin = address(begin_of(run) + cast<int64_t>(line) * cache_line_bytes);
        std::vector<Stmt> all;
        for (int n = 0; n < neighbours; n++)
            all.push_back(fetch_into_all_caches(begin + make_const(UInt(64), n * cache_line_bytes)));
        return Block::make(all);
    }
    Stmt fetches() {
        found_ = true;
        const int lines_of_round = (lines() + rounds() - 1) / rounds();
        const bool evenly = !step_.defined() && lines() % rounds() == 0;
        const int neighbours = evenly ? std::gcd(lines_of_round, runs_.lines) : 1;  // lines whose address is computed once
        const Expr first = step_.defined() ? round_ * step_ / whole_line
                           : evenly        ? round_ * lines_of_round
                                           : round_ * lines() / rounds();
        std::vector<Stmt> all;
        for (int n = 0; n < lines_of_round; n += neighbours) {
            const Expr line = evenly ? first + n : min(first + n, lines() - 1);
            all.push_back(fetch_line(line / runs_.lines, line % runs_.lines, neighbours));
        }
        return IfThenElse::make(within_, Block::make(all));
    }

public:
    FetchRuns(const ImageParam &input, const PrefetchRuns &runs) : FetchNext(input, runs.reads, runs.around), runs_(runs) {}
};

// Prefetch row after row. The next line's address is kept from round to round: computing it by a division would delay fetches.
class FetchRows : public FetchNext {
    const PrefetchRows rows_;
    std::string address_, left_, row_;  // of the next line: its address, the lines left in its row, and its row

    static Stmt set(const std::string &name, const Expr &value) { return Store::make(name, value, 0, {}, const_true(), {}); }
    static Expr get(const Type &type, const std::string &name) { return Load::make(type, name, 0, {}, {}, const_true(), {}); }
    Stmt begin_row(const Expr &row) const {
        return Block::make({set(address_, address(begin_of(row))), set(left_, rows_.lines), set(row_, row)});
    }

    bool begins_inside(const For *op) const override {
        return std::any_of(rows_.reads.begin(), rows_.reads.end(), [&](const LoweredLoop &l) { return l.is(op->name); });
    }
    Stmt with_filled_table(const Stmt &fill, const Stmt &body) override {
        address_ = unique_name("line"), left_ = unique_name("lines_left"), row_ = unique_name("row");
        Stmt whole = Block::make({fill, begin_row(0), mutate(body)});
        whole = Allocate::make(address_, UInt(64), MemoryType::Stack, {1}, const_true(), whole);
        for (const std::string &count : {left_, row_})
            whole = Allocate::make(count, Int(32), MemoryType::Stack, {1}, const_true(), whole);
        return whole;
    }
    Stmt inside(const For *op) override {
        if (!begins_inside(op)) return IRMutator::visit(op);
        found_ = true;
        const Lets around = lets_around();
        Places places(buffer_, around);
        op->body.accept(&places);
        const int lines = int(places.found.size());
        const std::string name = unique_name("fetched");
        const Expr at = Variable::make(UInt(64), name);
        std::vector<Stmt> fetches;
        for (int n = 0; n < lines; n++)
            fetches.push_back(fetch_into_all_caches(at + make_const(UInt(64), n * cache_line_bytes)));
        // The table has an entry for each load, and so for each row.
        const Expr left = get(Int(32), left_) - lines, next_row = min(get(Int(32), row_) + 1, runs_of_table_ - 1);
        const Stmt same_row = Block::make(set(address_, at + make_const(UInt(64), lines * cache_line_bytes)), set(left_, left));
        // Before the body: LLVM would otherwise keep values loaded before the branch in memory to sum them behind it.
        const Stmt go_on = IfThenElse::make(left > 0, same_row, begin_row(next_row));
        const Stmt round = Block::make(go_on, BesideLoads(buffer_, fetches)(op->body));
        return with_body(op, LetStmt::make(name, get(UInt(64), address_), round));
    }

public:
    FetchRows(const ImageParam &input, const PrefetchRows &rows)
        : FetchNext(input, rows.reads.front(), rows.around), rows_(rows) {}
};

}  // namespace

IRMutator *prefetch_pass(const ImageParam &input, const PrefetchRuns &runs) { return new FetchRuns(input, runs); }

IRMutator *prefetch_pass(const ImageParam &input, const PrefetchRows &rows) { return new FetchRows(input, rows); }

}  // namespace attune
