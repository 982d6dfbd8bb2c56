// SPDX-License-Identifier: MIT
// Document 000, attention scoring functions: masked softmax, the batched product, dot-product and additive attention.
#include "show.h"

using namespace examples;
using attune::ConstView;

int main() {
    attune::Context context;

    std::printf("masked_softmax(X, valid_lens), X (2, 2, 4) random\n");
    const Array scores = uniform({2, 2, 4});
    Array weights({2, 2, 4});
    const std::int32_t per_batch[] = {2, 3}, per_query[] = {1, 3, 2, 4};
    require(attune::masked_softmax(context, scores, weights, {.valid_lens = per_batch}));
    show("valid_lens [2, 3]", weights);
    show_sums(weights);
    require(attune::masked_softmax(context, scores, weights, {.valid_lens = ConstView(per_query, {2, 2})}));
    show("valid_lens [[1, 3], [2, 4]]", weights);
    show_sums(weights);

    std::printf("what the masking does: a row of X without keys\n");
    const std::int32_t none[] = {0, 3};
    require(attune::masked_softmax(context, scores, weights, {.valid_lens = none}));
    show("masked by -inf: it takes nothing", Array({4}, {weights.numbers.begin(), weights.numbers.begin() + 4}),
         "[0, 0, 0, 0]");
    require(attune::masked_softmax(context, scores, weights, {.valid_lens = none, .fill = attune::MaskFill::seed}));
    show("masked by -1e6, as in the document: all alike", Array({4}, {weights.numbers.begin(), weights.numbers.begin() + 4}),
         "[0.25, 0.25, 0.25, 0.25]");

    std::printf("batch_dot of ones (2, 1, 3) and ones (2, 3, 2)\n");
    Array product({2, 1, 2});
    require(attune::batch_dot(context, Array({2, 1, 3}, 1), Array({2, 3, 2}, 1), product));
    show("product", product, "[[[3, 3]], [[3, 3]]]");

    // All keys are alike, so each output is the mean of the unmasked values, whatever the score function.
    const Array keys({2, 10, 2}, 1), value = counting({1, 10, 4});
    const ConstView values(value.numbers.data(), {2, 10, 4}, {0, 4, 1});  // repeated over the batch by stride 0
    const std::int32_t valid_lens[] = {2, 6};
    const std::string expected = "[[[2, 3, 4, 5]], [[10, 11, 12, 13]]]";
    Array out({2, 1, 4});

    std::printf("DotProductAttention, keys ones (2, 10, 2), values 0...39, valid_lens [2, 6]\n");
    attune::SdpaOptions options{.valid_lens = valid_lens};
    require(attune::scaled_dot_product_attention(context, normal({2, 1, 2}), keys, values, out, options));
    show("output", out, expected);

    std::printf("AdditiveAttention(units 8), queries (2, 1, 20): query and key may differ in width\n");
    const Array w_query = normal({8, 20}, 0.2f), w_key = normal({8, 2}, 0.2f), w_score = normal({8});
    const Array queries = normal({2, 1, 20});
    attune::AdditiveOptions additive{.w_query = w_query, .w_key = w_key, .w_score = w_score, .attention = options};
    require(attune::additive_attention(context, queries, keys, values, out, additive));
    show("output", out, expected);

    std::printf("the same while training: half of the weights dropped, the others doubled\n");
    // The values are the identity, so the output is the weights after dropout.
    Array identity({10, 10}), dropped({2, 1, 10});
    for (std::size_t n = 0; n < 10; n++) identity.numbers[n * 11] = 1;
    additive.attention.dropout = {.probability = 0.5, .seed = 7};
    require(attune::additive_attention(context, queries, keys, ConstView(identity.numbers, {2, 10, 10}, {0, 10, 1}), dropped,
                                       additive));
    show("weights", dropped);
    return exit_code();
}
