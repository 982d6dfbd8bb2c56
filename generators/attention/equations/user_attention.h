// SPDX-License-Identifier: MIT
// A user's attention in the generators. A program that makes kernels of a user's attention is the library's own program with
// the user's struct linked in (register_attention.h).
#pragma once
#include "generators/attention/equations/score.h"
#include <map>

namespace attune {

// A buffer that a score reads, under its name in calls of Halide's IR.
struct CapturedBuffer {
    std::string name;
    std::vector<Halide::Expr> extents;  // innermost first
};

struct UserAttention {
    std::string name;  // of the struct
    std::vector<std::shared_ptr<Capture::State>> captures;
    // Empty where the struct has no such member. The functions throw where the author's expression must be a mistake.
    ScoreFunction score;
    MaskFunction mask;
    std::function<Halide::Expr(const Index &)> probability;

    // Append to the steps of a score: the user's score stands before the library's masks, the user's mask after them. `global`
    // maps an index of the kernel to the index for the user's functions (UserInputs::global).
    using Global = std::function<Index(const Index &)>;
    void add_score(Score &, const Global &) const;
    void add_mask(Score &, const Global &) const;
};

// The attention of this program; null in the library's own programs. Constructed on the first call and not before main(),
// because errors in it are thrown.
const UserAttention *user_attention();
void set_user_attention(std::function<UserAttention()> make);

// Kernel inputs of a user's attention, behind all other inputs: where the kernel's pairs lie in the call whose indices the
// user's functions see (origin_arguments), and the captures. A kernel may be called for a part of a larger call, such as a
// chunk of a sequence that is spread over ranks.
class UserInputs {
public:
    // Called in configure().
    void add_to(Halide::Internal::GeneratorBase &, Halide::Type of_scores);
    // Called in generate(): captures read the added inputs.
    void connect();
    // Maps an index within the kernel's tensors to the index for the user's functions; for use after connect().
    UserAttention::Global global() const;
    // Called in schedule().
    void constrain();
    // All captures, including scalars, which have no extents.
    std::vector<CapturedBuffer> buffers() const;

private:
    struct Input {
        Capture::State *capture;
        Halide::GeneratorInput<Halide::Buffer<>> *buffer = nullptr;
        Halide::GeneratorInput<double> *number = nullptr;
        Halide::GeneratorInput<int32_t> *integer = nullptr;
    };
    std::map<std::string, Halide::GeneratorInput<int32_t> *> origin_;
    std::vector<Input> inputs_;
    Halide::Type of_scores_;
};

// Symbolic pair: b is pair_b, i pair_i, position pair_i + pair_offset and so on.
Index symbolic_index();

// Lets captures read symbols, for queries about the functions that make no kernel; `of_scores` is the type of the scores.
void connect_to_symbols(const UserAttention &, Halide::Type of_scores);

// Refuses constants that were written as floats and lost digits (0.1f) in an expression for scores of f64. `who` wrote it.
void refuse_lost_digits(const Halide::Expr &, const std::string &who);

// Refuses names that the library's header cannot declare; `what` is the thing so named.
void check_word(const std::string &name, const std::string &what);

// The element type of a capture in kernels whose scores are of the other type.
Halide::Type capture_type(const Capture::State &, Halide::Type of_scores);

}  // namespace attune
