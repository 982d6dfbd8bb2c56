// What an attention is made of: how a query and a key give a number, and how that number becomes the score that is
// normalised. Everything here is written in terms of an index and of captured buffers; nothing knows a loop.
#pragma once
#include "Halide.h"
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace attune {

// One (query, key) pair: batch, query head, query, key, and the position of the query among the keys (i + offset).
struct Index {
    Halide::Expr b, h, i, j, position;
    Halide::Expr key_head;
    // The element (j, i, h, b) of a table over pairs. Read through this and not as table(j, i, h, b), because a schedule
    // whose lanes are queries wants such tables transposed.
    std::function<Halide::Expr(const Halide::Func &table)> of_pair;
};

// The number that a query and a key give: finish(sum over channels of weight(channel) * contribution(term(q, k))). An empty
// function leaves its argument as it is; an empty term is the product, an empty weight 1.
struct PairTerm {
    // Written with Halide's tanh(), exp()...: its derivatives are taken from it.
    std::function<Halide::Expr(Halide::Expr q, Halide::Expr k)> term;
    // How the term is computed of what is computed beforehand of each query and key alone. Empty: precise(term(q, k)).
    std::function<Halide::Expr(Halide::Expr)> query, key;
    std::function<Halide::Expr(Halide::Expr q, Halide::Expr k)> computed;
    std::function<Halide::Expr(Halide::Expr term)> contribution;
    std::function<Halide::Expr(Halide::Expr channel)> weight;
    std::function<Halide::Expr(Halide::Expr sum, const Index &at)> finish;
    // Of gradients: the product is of query and key over their norms (finish and prepared say the same to the forward).
    bool unit_rows = false;
    std::vector<Halide::Func> prepared;  // what finish or weight read, computed before anything else
};

// The scaled number to a score, in natural units. Written with Halide's tanh(), exp()...: its derivative is taken from it, and
// then calls become expressions that vectorise (math/precise.h).
using ScoreFunction = std::function<Halide::Expr(Halide::Expr score, const Index &at)>;
// True where key j takes part for query i.
using MaskFunction = std::function<Halide::Expr(const Index &at)>;

// One change of all scores: a score function, a mask function, or both of them, of which the mask is asked about what it reads
// and not about the new score. A score below -1e29 counts as masked.
struct ScoreStep {
    ScoreFunction score;
    MaskFunction mask;
    Halide::Expr when;         // names inputs of the kernel alone, and is asked once; undefined: always
    bool reads_pairs = false;  // through Index::of_pair
    bool may_mask = false;     // as every mask function may
};

struct Score {
    PairTerm pair;
    std::vector<ScoreStep> steps;  // in order; empty: the scaled number is the score
};

// A buffer that a score or mask reads. A Generator rejects an ImageParam that it did not declare, so a capture registers
// itself with the Captures that is being filled, and the Generator adds an input for each (see tests/score_function).
class Capture {
public:
    struct State {
        std::string name;
        Halide::Type type;
        int dimensions;
        Halide::Func func;  // set by the Generator to the input
    };
    Capture(const std::string &name, Halide::Type type, int dimensions)
        : state_(std::make_shared<State>(State{name, type, dimensions, {}})) {
        if (collector) collector->push_back(state_);
    }
    template<typename... Args> Halide::Expr operator()(Args &&...args) const {
        return state_->func(std::forward<Args>(args)...);
    }
    static inline thread_local std::vector<std::shared_ptr<State>> *collector = nullptr;

private:
    std::shared_ptr<State> state_;
};

// A User (a struct with Capture members) and the list of what it captures.
template<typename User> struct Captured {
    std::vector<std::shared_ptr<Capture::State>> list;
    std::unique_ptr<User> user;
    Captured() {
        Capture::collector = &list;
        user = std::make_unique<User>();
        Capture::collector = nullptr;
    }
};

}  // namespace attune
