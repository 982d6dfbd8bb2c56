// SPDX-License-Identifier: MIT
// Document 002, scaled dot-product attention with masks and weights, and the multi-head layer.
#include "show.h"

using namespace examples;
using attune::ConstView;

namespace {
const Array key({4, 3}, {10, 0, 0, 0, 10, 0, 0, 0, 10, 0, 0, 10}), value({4, 2}, {1, 0, 10, 0, 100, 5, 1000, 6});

void attend(attune::Context &context, const Array &query, const std::string &expected_weights, const std::string &expected,
            attune::SdpaOptions options = {}) {
    Array weights({query.shape[0], 4}), out({query.shape[0], 2});
    options.weights = weights;
    require(attune::scaled_dot_product_attention(context, query, key, value, out, options));
    show("attention weights", weights, expected_weights);
    show("output", out, expected);
}

void products(attune::Context &context) {
    std::printf("q [0, 10, 0]: the second key\n");
    attend(context, Array({1, 3}, {0, 10, 0}), "[[0, 1, 0, 0]]", "[[10, 0]]");
    std::printf("q [0, 0, 10]: the third and fourth key alike\n");
    attend(context, Array({1, 3}, {0, 0, 10}), "[[0, 0, 0.5, 0.5]]", "[[550, 5.5]]");
    std::printf("q [10, 10, 0]: the first and second key alike\n");
    attend(context, Array({1, 3}, {10, 10, 0}), "[[0.5, 0.5, 0, 0]]", "[[5.5, 0]]");
    std::printf("the three together\n");
    attend(context, Array({3, 3}, {0, 0, 10, 0, 10, 0, 10, 10, 0}), "[[0, 0, 0.5, 0.5], [0, 1, 0, 0], [0.5, 0.5, 0, 0]]",
           "[[550, 5.5], [10, 0], [5.5, 0]]");
}

void masks(attune::Context &context) {
    const Array third({1, 3}, {0, 0, 10});
    std::printf("padding: q [0, 0, 10], the last key masked. The document's mask is 1 where a key is masked out\n");
    const float mask[] = {0, 0, 0, 1};
    bool attended[4];
    float bias[4], no_bias[4];
    for (int j = 0; j < 4; j++) attended[j] = mask[j] == 0, bias[j] = mask[j] * -1e9f, no_bias[j] = mask[j] * -1e-9f;
    attend(context, third, "[[0, 0, 1, 0]]", "[[100, 5]]", {.mask = attended});
    std::printf("the same, as a bias of mask * -1e9\n");
    attend(context, third, "[[0, 0, 1, 0]]", "[[100, 5]]", {.bias = bias});
    std::printf("mistake: the document writes 1e-9, and then the masked key keeps its weight\n");
    attend(context, third, "[[0, 0, 0.5, 0.5]]", "[[550, 5.5]]", {.bias = no_bias});

    std::printf("look-ahead: the queries are the keys, and see none after their own\n");
    bool seen[4][4];
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) seen[i][j] = j <= i;
    const std::string weights = "[[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]]";
    const std::string out = "[[1, 0], [10, 0], [100, 5], [550, 5.5]]";
    attend(context, key, weights, out, {.mask = ConstView(&seen[0][0], {4, 4})});
    std::printf("the same without an array, so that what is masked costs nothing\n");
    attend(context, key, weights, out, {.causal = attune::Causal::top_left});
}

void multi_head(attune::Context &context) {
    const std::int64_t d_model = 512, heads = 8;
    const Array y = uniform({1, 60, d_model}), longer = uniform({1, 62, d_model});
    const Array w_q = normal({d_model, d_model}, 0.05f), w_k = normal({d_model, d_model}, 0.05f);
    const Array w_v = normal({d_model, d_model}, 0.05f), w_out = normal({d_model, d_model}, 0.05f);
    const Array b_q({d_model}), b_k({d_model}), b_v({d_model}), b_out({d_model});

    std::printf("MultiHeadAttention(d_model 512, num_heads 8), y (1, 60, 512) as query, key and value\n");
    // README: multi-head
    // Weights are (out, in), as linear layers have them.
    attune::MultiHeadWeights layer{.query = w_q, .key = w_k, .value = w_v, .out = w_out};
    layer.query_bias = b_q, layer.key_bias = b_k, layer.value_bias = b_v, layer.out_bias = b_out;
    // Self-attention of y (1, 60, 512).
    Array out({1, 60, 512}), weights({1, 8, 60, 60});
    attune::Status status =
        attune::multi_head_attention(context, y, y, y, layer, out, {.heads = 8, .attention = {.weights = weights}});
    // README: end
    require(status);
    show("output", text_of(out.shape), "(1, 60, 512)");
    show("attention weights", text_of(weights.shape), "(1, 8, 60, 60)");
    show_sums(weights);

    std::printf("a query of 62\n");
    Array longer_out({1, 62, d_model}), longer_weights({1, heads, 62, 60});
    require(attune::multi_head_attention(context, longer, y, y, layer, longer_out,
                                         {.heads = heads, .attention = {.weights = longer_weights}}));
    show("output", text_of(longer_out.shape), "(1, 62, 512)");
    show("attention weights", text_of(longer_weights.shape), "(1, 8, 62, 60)");
    show_sums(longer_weights);

    std::printf("d_model not divisible by num_heads\n");
    status = attune::multi_head_attention(context, y, y, y, layer, out, {.heads = 7});
    show("refused", status.ok() ? "no" : "yes", "yes");
    std::printf("  %s\n", status.message().c_str());
}
}  // namespace

int main() {
    attune::Context context;
    products(context);
    masks(context);
    multi_head(context);
    return exit_code();
}
