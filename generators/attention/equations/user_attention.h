// SPDX-License-Identifier: MIT
// The attention of a user, as the generators of this program take part of it: a program that makes kernels of one is the
// library's own with the user's struct linked in (register_attention.h).
#pragma once
#include "generators/attention/equations/score.h"

namespace attune {

// A buffer that a score reads, by the name of the calls.
struct CapturedBuffer {
    std::string name;
    std::vector<Halide::Expr> extents;  // innermost first
};

struct UserAttention {
    std::string name;  // of the struct
    std::vector<std::shared_ptr<Capture::State>> captures;
    // Empty where the struct has no such member. They throw where what it wrote cannot be meant.
    ScoreFunction score;
    MaskFunction mask;
    std::function<Halide::Expr(const Index &)> probability;

    // To the steps of a score: the user's score stands before the masks of the library, the mask after them. `global` gives
    // what the user's functions are asked with for an index of the kernel, which may count from the first head of a task.
    using Global = std::function<Index(const Index &)>;
    void add_score(Score &, const Global &) const;
    void add_mask(Score &, const Global &) const;
};
inline Index same_index(const Index &at) { return at; }

// Of this program; null in those of the library. Made when it is first asked for, and not before main(): what is wrong with
// it is thrown.
const UserAttention *user_attention();
void set_user_attention(std::function<UserAttention()> make);

// What each capture is to a kernel: an input behind all others.
class UserInputs {
public:
    // In configure().
    void add_to(Halide::Internal::GeneratorBase &, Halide::Type of_scores);
    // In generate(): captures read what was added.
    void connect();
    // In schedule().
    void constrain();
    // All captures, also those that have no extents.
    std::vector<CapturedBuffer> buffers() const;

private:
    struct Input {
        Capture::State *capture;
        Halide::GeneratorInput<Halide::Buffer<>> *buffer = nullptr;
        Halide::GeneratorInput<double> *number = nullptr;
        Halide::GeneratorInput<int32_t> *integer = nullptr;
    };
    std::vector<Input> inputs_;
    Halide::Type of_scores_;
};

// A pair of which nothing is known: b is pair_b, i pair_i, position pair_i + pair_offset...
Index symbolic_index();

// Captures read symbols, for what asks about the functions and makes no kernel; `of_scores` is the type of the scores.
void connect_to_symbols(const UserAttention &, Halide::Type of_scores);

// Refuses the constants of an expression for scores of f64 that were written as floats and lost digits: 0.1f. `who` wrote it.
void refuse_lost_digits(const Halide::Expr &, const std::string &who);

// Refuses names that the library's header cannot declare; `what` has it.
void check_word(const std::string &name, const std::string &what);

// The element type of a capture in kernels whose scores are of the other type.
Halide::Type capture_type(const Capture::State &, Halide::Type of_scores);

}  // namespace attune
