// SPDX-License-Identifier: MIT
// Author's interface for an attention of one's own. A struct is the whole definition; attune_add_attention() (CMake) makes a
// library from it, forward and backward (docs/write-your-own-attention.md):
//
//   struct Alibi {
//       attune::Capture slopes{"slopes", 1};  // (Hq)
//       Halide::Expr score(Halide::Expr x, attune::Index at) const {
//           return x - slopes(at.h) * Halide::abs(Halide::cast<float>(at.position - at.j));
//       }
//       Halide::Expr mask(attune::Index at) const { return at.j <= at.position; }
//   };
//
// At least one of these members, each neither a template nor overloaded (Expr is Halide's):
//   Expr score(Expr x, Index) const     the score that is normalised, from x = scale * q . k
//   Expr mask(Index) const              true where key j takes part for query i; blocks of pairs without any are skipped
//   Expr probability(Index) const       a factor of the weight behind the softmax, of indices and captures alone
// Captures are read by index as they are declared, outermost first, as in C and NumPy. Scores may call Halide's tanh(), exp(),
// log() and the like: such calls become expressions that vectorise, and derivatives, also by captured buffers, are taken from
// the expressions. Scalars that are not captured are constants of the library: a double, as in x * 0.1, takes the type of the
// scores, as attune::number(0.1) does where no expression stands beside it; 0.1f has a float's digits and is refused for
// libraries with f64.
#pragma once
#include "attune/generator/constants.h"
#include <Halide.h>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace attune {

// One (query, key) pair. All members but of_pair are int32.
struct Index {
    Halide::Expr b, h, i, j;  // batch entry, query head, query, key
    Halide::Expr position;    // of the query among the keys: i + offset of the call (conventions of SdpaOptions::offset)
    Halide::Expr key_head;    // key head that query head h uses
    Halide::Expr heads, queries, keys;  // Hq, Sq, Sk
    // The element (j, i, h, b) of a table over pairs, for scores of the library alone. They read a table through of_pair and
    // not as table(j, i, h, b), because a schedule whose lanes are queries wants such tables transposed.
    std::function<Halide::Expr(const Halide::Func &table)> of_pair;
};

// Input of a score or a mask that the caller gives: a buffer, or a scalar if it has rank 0. A capture becomes a member of the
// library's options under its name.
class Capture {
public:
    struct State {
        std::string name;
        Halide::Type type;
        bool of_scores;  // the type is that of the scores: double for f64, else float
        int dimensions;
        std::function<Halide::Expr(const std::vector<Halide::Expr> &)> read;  // innermost first; set by the kernel's maker
    };

    // Capture of type Halide::Float(32), Halide::Float(64), Halide::Int(32) or Halide::Bool().
    Capture(const std::string &name, Halide::Type type, int dimensions) : Capture(State{name, type, false, dimensions, {}}) {}
    // Capture of the scores' type. An expression with a capture of a wider type may take that type, and its time.
    Capture(const std::string &name, int dimensions) : Capture(State{name, Halide::Float(32), true, dimensions, {}}) {}

    // The element at these indices, outermost first. The caller's buffer must hold every element that any pair reads: an index
    // that Halide cannot bound from b, h, i and j needs a clamp().
    template<typename... Indices> Halide::Expr operator()(Indices &&...indices) const {
        std::vector<Halide::Expr> args = {Halide::Expr(std::forward<Indices>(indices))...};
        if (static_cast<int>(args.size()) != state_->dimensions)
            throw std::invalid_argument("attune: capture " + state_->name + " has rank " + std::to_string(state_->dimensions) +
                                        " and is read with " + std::to_string(args.size()) + " indices");
        if (!state_->read) throw std::invalid_argument("attune: capture " + state_->name + " is no member of the struct");
        return state_->read({args.rbegin(), args.rend()});
    }

    // List to which captures that are being constructed add themselves.
    static inline thread_local std::vector<std::shared_ptr<State>> *collector = nullptr;

private:
    explicit Capture(State state) : state_(std::make_shared<State>(std::move(state))) {
        if (collector) collector->push_back(state_);
    }
    std::shared_ptr<State> state_;
};

// 32 random bits of a pair: Philox4x32-10 in the convention of dropout (attune/dropout.h), so a function of the seed, batch
// entry, head, query and key alone. A factor such as Halide::select(attune::random_bits(at, seed_low, seed_high) < limit, 0, 2)
// drops weights.
Halide::Expr random_bits(const Index &at, const Halide::Expr &seed_low, const Halide::Expr &seed_high);

}  // namespace attune
