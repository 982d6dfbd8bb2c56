// What a score or a mask may name: its index, and captured buffers.
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
};

// x = scale * <q_i, k_j> to the score that is normalised; natural units (the kernels' base 2 is folded in after it).
using ScoreFunction = std::function<Halide::Expr(Halide::Expr score, Index at)>;
// True where key j takes part for query i.
using MaskFunction = std::function<Halide::Expr(Index at)>;

// The pointwise part of an attention. Either function may be empty: then the score is x itself, and every key that the
// structural intervals allow takes part.
struct Pointwise {
    ScoreFunction score;
    MaskFunction mask;
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
