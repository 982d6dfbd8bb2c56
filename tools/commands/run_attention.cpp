// SPDX-License-Identifier: MIT
// attune run sdpa, additive and mha: each has its own score or layer, and the common rest of attention.
#include "tools/calls/additive_layer.h"
#include "tools/calls/attention.h"
#include "tools/calls/layer.h"
#include "tools/error.h"

namespace attune::program {
void run_sdpa(const SdpaArguments &given) {
    CommandFiles files(given.attention.call);
    Attention attention(given.attention, files, Attention::Heads::given);
    attention.options.score = score_of(given.score);
    Array score_weight;
    files.input("--score-weight", given.score_weight, score_weight, {2, 2, "(Dq, Dk)"});
    files.load();
    attention.options.score_weight = view_of(score_weight);
    attention.run(attention.value.shape.back(), [&](Context &context, const View &out, const SdpaOptions &options) {
        return scaled_dot_product_attention(context, attention.query_view(), attention.key_view(), attention.value_view(), out,
                                            options);
    });
}

void run_additive(const AdditiveArguments &given) {
    CommandFiles files(given.attention.call);
    Attention attention(given.attention, files, Attention::Heads::given);
    AdditiveLayer layer(given, files);
    files.load();
    AdditiveOptions options = layer.options();
    attention.run(attention.value.shape.back(), [&](Context &context, const View &out, const SdpaOptions &shared) {
        options.attention = shared;
        return additive_attention(context, attention.query_view(), attention.key_view(), attention.value_view(), out, options);
    });
}

void run_multi_head(const MultiHeadArguments &given) {
    CommandFiles files(given.attention.call);
    Attention attention(given.attention, files, Attention::Heads::made);
    Layer layer(given, files);
    files.load();
    layer.check_heads();
    const auto call = [&](Context &context, const View &out, const SdpaOptions &shared) {
        layer.options.attention = shared;
        return multi_head_attention(context, attention.query_view(), attention.key_view(), attention.value_view(),
                                    layer.weights(), out, layer.options);
    };
    attention.run(layer.w_out.shape[0], call, layer.options.heads);
}

}  // namespace attune::program
