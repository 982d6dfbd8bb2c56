// SPDX-License-Identifier: MIT
// Document 001, the same chapter as an older notebook. Its code has mistakes: each is shown beside the correct result.
#include "show.h"

using namespace examples;
using attune::ConstView;

int main() {
    attune::Context context;

    std::printf("batch_dot of ones (2, 1, 3) and ones (2, 3, 2)\n");
    Array product({2, 1, 2});
    require(attune::batch_dot(context, Array({2, 1, 3}, 1), Array({2, 3, 2}, 1), product));
    show("product", product, "[[[3, 3]], [[3, 3]]]");

    std::printf("masked_softmax of scores (2, 1, 4), valid_lens [2, 3]\n");
    const Array scores({2, 1, 4}, {1, 2, 3, 4, 4, 3, 2, 1});
    Array weights({2, 1, 4});
    const std::int32_t lens[] = {2, 3};
    require(attune::masked_softmax(context, scores, weights, {.valid_lens = lens}));
    show("right", weights, "[[[0.2689, 0.7311, 0, 0]], [[0.6652, 0.2447, 0.09003, 0]]]");
    // exp(0) is 1, not 0.
    const Array zeroed({2, 1, 4}, {1, 2, 0, 0, 4, 3, 2, 0});
    require(attune::masked_softmax(context, zeroed, weights));
    show("mistake: masked scores set to 0, so masked keys keep weight", weights);
    // A softmax without an axis takes the first of a rank-3 array, which is the batch.
    Array over_batch({2, 1, 4});
    for (std::size_t j = 0; j < 4; j++) {
        const float first = std::exp(zeroed.numbers[j]), second = std::exp(zeroed.numbers[4 + j]);
        over_batch.numbers[j] = first / (first + second), over_batch.numbers[4 + j] = second / (first + second);
    }
    show("mistake: softmax without an axis, so columns sum to 1 and not rows", over_batch);

    const Array keys({2, 10, 2}, 1), value = counting({1, 10, 4});
    const ConstView values(value.numbers.data(), {2, 10, 4}, {0, 4, 1});
    const std::int32_t valid_lens[] = {2, 6};
    const std::string expected = "[[[2, 3, 4, 5]], [[10, 11, 12, 13]]]";
    attune::SdpaOptions options{.valid_lens = valid_lens};
    Array out({2, 1, 4});

    std::printf("DotProductAttention, keys ones (2, 10, 2), values 0...39, valid_lens [2, 6]\n");
    const Array queries = normal({2, 1, 2});
    require(attune::scaled_dot_product_attention(context, queries, keys, values, out, options));
    show("right", out, expected);
    options.dropout = {.probability = 0.5, .seed = 1};
    require(attune::scaled_dot_product_attention(context, queries, keys, values, out, options));
    show("mistake: dropout runs in the example, so its output is another one each time", out);
    options.dropout = {};

    std::printf("MLPAttention: the notebook has the sizes 2 and 8 typed in; here they are those of the weights\n");
    const Array wide = normal({2, 1, 5}), w_query = normal({3, 5}), w_key = normal({3, 2}), w_score = normal({3});
    attune::AdditiveOptions additive{.w_query = w_query, .w_key = w_key, .w_score = w_score, .attention = options};
    require(attune::additive_attention(context, wide, keys, values, out, additive));
    show("right, queries of width 5, keys of width 2, 3 units", out, expected);
    std::swap(additive.w_query, additive.w_key);
    const auto refused = attune::additive_attention(context, wide, keys, values, out, additive);
    show("mistake: W_q and W_k swapped, which is refused", refused.message());
    return refused.ok() ? 1 : exit_code();
}
