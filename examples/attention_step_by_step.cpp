// SPDX-License-Identifier: MIT
// Document 004, attention scores step by step: one decoder state, then a batch at once, and a picture of the weights.
// usage: attune_attention_step_by_step [PICTURE.svg]
#include "draw.h"

using namespace examples;
using attune::ConstView, attune::View;

int main(int argc, char **argv) {
    const std::int64_t batch = 3, queries = 10, keys = 9, width = 18;  // the document's batch, J, I and K
    const Array decoder = normal({batch, queries, width}), encoder = normal({batch, keys, width});
    attune::Context context;

    std::printf("one decoder state s against the encoder states h, step by step\n");
    Array scores({1, keys}), weights({1, keys}), attended({1, width});
    const ConstView state(decoder.numbers.data(), {1, width}), states(encoder.numbers.data(), {keys, width});
    attune::SdpaOptions options{.weights = scores, .weights_mode = attune::WeightsMode::scaled};
    require(attune::scaled_dot_product_attention(context, state, states, states, attended, options));
    show("scores h s / sqrt(18)", scores);
    require(attune::masked_softmax(context, scores, weights));
    show("weights, their softmax", weights);
    show_sums(weights);
    Array product({1, width});
    require(attune::batch_dot(context, weights, states, product));
    show("context, the sum of the states so weighted", product);
    // The one call above has computed the context already; step by step it is rounded differently.
    double worst = 0;
    for (std::size_t d = 0; d < std::size_t(width); d++)
        worst = std::fmax(worst, std::abs(double(product.numbers[d]) - double(attended.numbers[d])));
    show("the same by one call", worst < 1e-6 ? "yes" : "no", "yes");

    std::printf("all at once, C = softmax(Q K^T / sqrt(18)) V, batch 3, 10 queries, 9 keys\n");
    Array all_weights({batch, queries, keys}), all({batch, queries, width});
    options = {.weights = all_weights};
    require(attune::scaled_dot_product_attention(context, decoder, encoder, encoder, all, options));
    show("weights", text_of(all_weights.shape), "(3, 10, 9)");
    show("context", text_of(all.shape), "(3, 10, 18)");
    show_sums(all_weights);

    std::printf("sentences of 9, 5 and 7 states, padded to 9\n");
    const std::vector<std::int32_t> lengths = {9, 5, 7};
    options.valid_lens = lengths;
    require(attune::scaled_dot_product_attention(context, decoder, encoder, encoder, all, options));
    float padding = 0;
    for (std::int64_t row = 0; row < batch * queries; row++)
        for (std::int64_t j = lengths[std::size_t(row / queries)]; j < keys; j++)
            padding = std::fmax(padding, all_weights.numbers[std::size_t(row * keys + j)]);
    show("largest weight of padding", text_of(padding), "0");
    show_sums(all_weights);

    std::printf("the same with dropout of 0.1 on the weights: which are dropped depends on the seed alone\n");
    Array again({batch, queries, width});
    options = {.valid_lens = options.valid_lens, .dropout = {.probability = 0.1, .seed = 4}};
    require(attune::scaled_dot_product_attention(context, decoder, encoder, encoder, all, options));
    require(attune::scaled_dot_product_attention(context, decoder, encoder, encoder, again, options));
    show("twice the same", all.numbers == again.numbers ? "yes" : "no", "yes");

    if (argc > 1) draw(argv[1], all_weights, {.valid_lens = lengths});
    return exit_code();
}
