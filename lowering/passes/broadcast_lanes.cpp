// SPDX-License-Identifier: MIT
#include "lowering/passes/broadcast_lanes.h"
#include "lowering/passes/pairs_of_bf16.h"
#include "lowering/passes/places.h"
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>

namespace attune {
using namespace Halide;
using namespace Halide::Internal;

namespace {

constexpr int vector_bytes = 16;
// Rounds of an unrolled loop, and most multiply-adds of its body: 2 KiB of code.
constexpr int most_rounds = 16, few_rounds = 4, most_steps = 400;

// The load of a broadcast scalar whose type fmla takes, or of a pair of bf16, which bfdot takes; null for any other expression.
const Load *broadcast_load(const Broadcast *op) {
    const Reinterpret *pair = op->value.as<Reinterpret>();
    const Load *load = (pair ? pair->value : op->value).as<Load>();
    if (!load || !is_const_one(load->predicate)) return nullptr;
    if (!pair) return load->type.is_scalar() && load->type.is_float() && load->type.bits() >= 32 ? load : nullptr;
    const Ramp *place = load->index.as<Ramp>();
    return load->type == BFloat(16, 2) && op->value.type() == Float(32) && place && is_const_one(place->stride) ? load
                                                                                                                : nullptr;
}

// The index of the first element of such a load.
Expr index_of(const Load *load) { return load->type.is_scalar() ? load->index : load->index.as<Ramp>()->base; }

// How many such loads have neighbouring places in one vector.
int lanes_of(const Load *load) { return vector_bytes / (load->type.bytes() * load->type.lanes()); }

// An index without its constant term, and that term.
struct Place {
    Expr base;
    std::int64_t offset;
};
Place place_of(const Expr &index, const Lets &around) {
    const Expr simple = simplify(written_out(index, around));
    if (const Add *add = simple.as<Add>())
        if (const auto constant = as_const_int(add->b)) return {add->a, *constant};
    return {simple, 0};
}

template<typename T> std::string text_of(const T &of) {
    std::ostringstream text;
    text << of;
    return text.str();
}

// Loads with indices that differ in a constant have one name here.
std::string name_of(const Load *load, const Place &place) { return load->name + "[" + text_of(place.base); }

// The offsets of broadcast loads that a statement makes whenever it runs: not those in its loops and branches.
class Offsets : public IRVisitor {
    using IRVisitor::visit;
    Lets around_;
    Scope<> inside_;  // lets inside the statement

    void visit(const LetStmt *op) override {
        around_[op->name] = op->value;
        const ScopedBinding<> here(inside_, op->name);
        IRVisitor::visit(op);
        around_.erase(op->name);
    }
    void visit(const For *) override {}
    void visit(const IfThenElse *op) override { op->condition.accept(this); }
    void visit(const Call *op) override {
        if (!op->is_intrinsic(Call::if_then_else)) IRVisitor::visit(op);
    }
    void visit(const Broadcast *op) override {
        if (const Load *load = broadcast_load(op)) {
            const Expr index = index_of(load);
            const Place place = place_of(index, around_);
            Loads &loads = found[name_of(load, place)];
            // An index in terms of lets outside has its divisions there; one of lets inside may not be in scope elsewhere.
            const bool outside = !expr_uses_vars(index, inside_);
            loads.places.emplace(place.offset, outside ? index : simplify(written_out(index, around_)));
            loads.lanes = lanes_of(load), loads.elements = load->type.lanes();
        }
        IRVisitor::visit(op);
    }

public:
    struct Loads {
        std::map<std::int64_t, Expr> places;  // indices by their offsets
        int lanes = 0, elements = 1;          // loads of a vector, and elements of a load
    };
    std::map<std::string, Loads> found;
    explicit Offsets(const Lets &around) : around_(around) {}
};

// A product, or dot product of pairs, that is added to a sum in memory.
struct AddedProduct {
    const Store *store = nullptr;
    const Load *sum = nullptr;
    Expr a, b;
};

Expr without_reinterpret(const Expr &of) {
    const Reinterpret *words = of.as<Reinterpret>();
    return words ? words->value : of;
}

AddedProduct added_product(const Stmt &s) {
    const Store *store = s.as<Store>();
    if (!store) return {};
    if (const Call *dot = store->value.as<Call>(); dot && dot->name == bf16_dot_name)
        return {store, dot->args[0].as<Load>(), without_reinterpret(dot->args[1]), without_reinterpret(dot->args[2])};
    const Add *add = store->value.as<Add>();
    const Mul *product = add ? add->b.as<Mul>() : nullptr;
    return product ? AddedProduct{store, add->a.as<Load>(), product->a, product->b} : AddedProduct{};
}

// The body of a loop that adds products of vectors and broadcast scalars to sums at constant places, and nothing else.
struct MultiplyAdds {
    std::vector<Stmt> steps;  // grouped by vector
    int registers = 0;        // of the sums, and of the vectors of scalars
};

void flatten(const Stmt &s, std::vector<Stmt> &steps) {
    if (const Block *block = s.as<Block>())
        flatten(block->first, steps), flatten(block->rest, steps);
    else
        steps.push_back(s);
}

// Empty for a body of another form. Steps that share a vector follow each other: the vector is needed for a moment, and
// registers hold sums and scalars. The sums are at different places, so that their order is free.
std::optional<MultiplyAdds> multiply_adds_of(const Stmt &body, const Lets &around) {
    std::vector<Stmt> steps;
    flatten(body, steps);
    std::vector<std::pair<std::string, std::vector<Stmt>>> groups;
    std::set<std::string> sums, scalars;
    for (const Stmt &step : steps) {
        const auto [store, sum, a, b] = added_product(step);
        const Ramp *place = store ? store->index.as<Ramp>() : nullptr;
        if (!sum || !place || !equal(sum->index, store->index)) return {};
        const auto first_lane = as_const_int(place->base);  // whole vectors do not overlap
        if (!first_lane || *first_lane % place->lanes != 0 || !is_const_one(place->stride)) return {};
        if (!is_const_one(store->predicate) || !is_const_one(sum->predicate)) return {};
        const bool first = a.as<Broadcast>() != nullptr;
        const Broadcast *scalar = (first ? a : b).as<Broadcast>();
        const Load *load = scalar ? broadcast_load(scalar) : nullptr;
        const Load *vector = (first ? b : a).as<Load>();
        if (!load || !vector || load->name == sum->name || vector->name == sum->name || sum->name != store->name) return {};
        sums.insert(store->name + text_of(store->index));
        const Place place_of_scalar = place_of(index_of(load), around);
        const int elements = lanes_of(load) * load->type.lanes();
        scalars.insert(name_of(load, place_of_scalar) + std::to_string(place_of_scalar.offset / elements));
        const std::string name = vector->name + text_of(vector->index);
        auto at = std::find_if(groups.begin(), groups.end(), [&](const auto &g) { return g.first == name; });
        if (at == groups.end()) at = groups.insert(at, {name, {}});
        at->second.push_back(step);
    }
    if (sums.size() != steps.size()) return {};
    MultiplyAdds all{{}, static_cast<int>(sums.size() + scalars.size())};
    for (const auto &[name, of] : groups) all.steps.insert(all.steps.end(), of.begin(), of.end());
    return all;
}

// How many rounds one of the unrolled loop has. With more than one vector of each run, LLVM holds two: it spills sums where
// these and the runs leave few of 32 registers.
int rounds_of(const MultiplyAdds &body, const Expr &extent) {
    constexpr int for_sums_and_runs = 26;
    int rounds = body.registers <= for_sums_and_runs ? most_rounds : few_rounds;
    while (rounds > 1 && rounds * static_cast<int>(body.steps.size()) > most_steps) rounds /= 2;
    const auto constant = as_const_int(extent);
    while (constant && rounds > 1 && *constant % rounds != 0) rounds /= 2;
    return rounds;
}

// The loop with a body of several rounds, and one for the rest where their number is no such multiple.
Stmt unrolled(const For *op, const MultiplyAdds &adds) {
    const int rounds = rounds_of(adds, op->extent);
    const Stmt body = Block::make(adds.steps);
    const auto part = [&](const std::string &name, const Expr &min, const Expr &extent, int each) {
        std::vector<Stmt> bodies;
        const Expr loop = Variable::make(Int(32), name);
        for (int n = 0; n < each; n++) bodies.push_back(simplify(substitute(op->name, min + loop * each + n, body)));
        return For::make(name, 0, extent, op->for_type, op->partition_policy, op->device_api, Block::make(bodies));
    };
    // A loop of a negative extent has no rounds; its remainder would not be negative.
    const Expr extent = simplify(max(op->extent, 0));
    const Stmt all = part(op->name, op->min, simplify(extent / rounds), rounds);
    if (is_const_zero(simplify(extent % rounds))) return all;
    return Block::make(all,
                       part(op->name + ".rest", simplify(op->min + extent / rounds * rounds), simplify(extent % rounds), 1));
}

class BroadcastLanes : public IRMutator {
    using IRMutator::visit;
    struct Lane {
        int lane;
        Expr first;  // index of the first load of the run
    };
    // Offsets that are in runs, by the loads' names.
    std::map<std::string, std::map<std::int64_t, Lane>> lanes_;
    Lets around_;

    // A statement whose loads are made whenever it runs: they are grouped in runs of a vector.
    Stmt region(const Stmt &body) {
        Offsets offsets(around_);
        body.accept(&offsets);
        auto outer = std::move(lanes_);
        lanes_.clear();
        for (const auto &[name, loads] : offsets.found)
            for (auto at = loads.places.begin(); at != loads.places.end();) {
                const auto &[first, index] = *at;
                int length = 0;
                const auto offset = [&, first = first](int lane) { return first + lane * loads.elements; };
                for (; at != loads.places.end() && length < loads.lanes && at->first == offset(length); ++at) length++;
                for (int lane = 0; length == loads.lanes && lane < length; lane++) lanes_[name][offset(lane)] = {lane, index};
            }
        const Stmt mutated = mutate(body);
        lanes_ = std::move(outer);
        return mutated;
    }

    Stmt visit(const LetStmt *op) override {
        around_[op->name] = op->value;
        const Stmt s = IRMutator::visit(op);
        around_.erase(op->name);
        return s;
    }
    Stmt visit(const IfThenElse *op) override {
        const Stmt then_case = region(op->then_case);
        return IfThenElse::make(mutate(op->condition), then_case, op->else_case.defined() ? region(op->else_case) : Stmt());
    }
    Stmt visit(const For *op) override {
        const auto adds = op->for_type == ForType::Serial ? multiply_adds_of(op->body, around_) : std::nullopt;
        return each_region(adds ? unrolled(op, *adds) : Stmt(op));
    }
    // The loop, or a block of loops, with its bodies as regions.
    Stmt each_region(const Stmt &loops) {
        if (const Block *block = loops.as<Block>()) return Block::make(each_region(block->first), each_region(block->rest));
        const For *op = loops.as<For>();
        return For::make(op->name, mutate(op->min), mutate(op->extent), op->for_type, op->partition_policy, op->device_api,
                         region(op->body));
    }

    Expr visit(const Broadcast *op) override {
        const Load *load = broadcast_load(op);
        if (!load) return IRMutator::visit(op);
        const Place place = place_of(index_of(load), around_);
        const auto runs = lanes_.find(name_of(load, place));
        if (runs == lanes_.end()) return IRMutator::visit(op);
        const auto at = runs->second.find(place.offset);
        if (at == runs->second.end()) return IRMutator::visit(op);
        const int lanes = lanes_of(load), elements = lanes * load->type.lanes();
        const auto &[lane, first] = at->second;
        const Expr places = Ramp::make(first, make_one(first.type()), elements);
        const Expr vector = Load::make(load->type.with_lanes(elements), load->name, places, load->image, load->param,
                                       const_true(elements), ModulusRemainder());
        const Expr scalars = reinterpret(op->value.type().with_lanes(lanes), vector);
        return Broadcast::make(Shuffle::make_extract_element(scalars, lane), op->lanes);
    }
};

}  // namespace

void broadcast_lanes(Pipeline pipeline, const Target &target) {
    if (target.arch == Target::ARM && target.bits == 64) pipeline.add_custom_lowering_pass(new BroadcastLanes);
}

}  // namespace attune
