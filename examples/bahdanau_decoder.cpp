// SPDX-License-Identifier: MIT
// Document 003, attention in sequence-to-sequence models: a decoder that attends to the encoder's states at each of its steps.
// Its weights are set by hand: it reads a sentence backwards. usage: attune_bahdanau_decoder [PICTURE.svg]
#include "draw.h"
#include <algorithm>

using namespace examples;
using attune::ConstView, attune::View;

int main(int argc, char **argv) {
    const std::vector<std::string> words = {"a", "decoder", "reads", "this", "sentence", "from", "behind"};
    const std::int64_t length = std::int64_t(words.size()), width = 1 + length;

    // An encoder state h_j has the position of a word, and the word. A decoder state s_i has the position to look at.
    Array states({length, width}), state({1, 1}, float(length - 1));
    for (std::int64_t j = 0; j < length; j++)
        states.numbers[std::size_t(j * width)] = float(j), states.numbers[std::size_t(j * width + 1 + j)] = 1;

    // e_ij = 4 tanh(s_i - h_j + 1) - 4 tanh(s_i - h_j - 1) is a bump: largest for the word at the position of s_i.
    const Array w_state({2, 1}, {1, 1}), b_state({2}), w_score({2}, {4, -4}), b_states({2}, {1, -1});
    Array w_states({2, width});
    w_states.numbers[0] = w_states.numbers[std::size_t(width)] = -1;

    attune::Context context;
    Array alignment({1, length, length}), found({1, width});
    std::vector<std::string> read;
    const auto word_of = [&](const Array &attended) {  // the word with the largest weight
        const auto word = attended.numbers.begin() + 1;
        return words[std::size_t(std::max_element(word, attended.numbers.end()) - word)];
    };

    // README: decoder
    // The encoder's states are projected once and kept: W_h h_j + b_h, two units.
    Array projected({length, 2});
    attune::Status status = attune::linear(context, states, w_states, b_states, projected);
    // One query a step. Keys come projected; the values are the states themselves.
    for (std::int64_t step = 0; status.ok() && step < length; step++) {
        const View weights(&alignment.numbers[std::size_t(step * length)], {1, length});
        status = attune::additive_attention(
            context, state, projected, states, found,
            {.w_query = w_state, .b_query = b_state, .w_score = w_score, .attention = {.weights = weights}});
        read.push_back(word_of(found));
        state.numbers[0] = found.numbers[0] - 1;  // next it looks to the left of where it has looked
    }
    // README: end
    require(status);
    std::printf("weights of each step of the decoder\n");
    for (std::int64_t step = 0; step < length; step++) {
        const auto row = alignment.numbers.begin() + step * length;
        show(read[std::size_t(step)], Array({length}, {row, row + length}));
    }
    show_sums(alignment);
    std::string sentence;
    for (const auto &word : read) sentence += (sentence.empty() ? "" : " ") + word;
    show("it has read", sentence, "behind from sentence this reads decoder a");

    // v^T (W_s s_i + W_h h_j) is a sum of a term in i, which the softmax cancels, and a term in j.
    std::printf("mistake: the document's code leaves the tanh out; then no decoder state has any influence\n");
    Array scores({length, 1}), flat({1, length});
    require(attune::linear(context, projected, ConstView(w_score.numbers, {1, 2}), {}, scores));
    require(attune::masked_softmax(context, ConstView(scores.numbers, {1, length}), flat));
    show("weights of every step", flat);

    if (argc > 1) draw(argv[1], alignment, {.queries = read, .keys = words});
    return exit_code();
}
