// attune run sdpa, additive and mha: each is its score or layer, and shares the rest.
#include "attention.h"
#include "error.h"
#include "layer.h"
#include "text.h"

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
    Array w_query, w_key, b_query, b_key, w_score, b_score;
    AdditiveOptions options;
    files.input("--w-query", given.w_query, w_query, {2, 2, "(h, Dq)"});
    files.input("--w-key", given.w_key, w_key, {2, 2, "(h, Dk)"});
    files.input("--b-query", given.b_query, b_query, {1, 1, "(h,)"});
    files.input("--b-key", given.b_key, b_key, {1, 1, "(h,)"});
    files.input("--w-score", given.w_score, w_score, {1, 1, "(h,)"});
    if (given.b_score) {
        if (const std::optional<double> number = number_in(*given.b_score))
            options.b_score = *number;
        else if (looks_like_number(*given.b_score))
            throw InputError("--b-score", "'" + *given.b_score + "' is not a number in range");
        else
            files.input("--b-score", given.b_score, b_score, {0, 1, "one number"});
    }
    files.load();
    options.w_query = view_of(w_query), options.w_key = view_of(w_key);
    options.b_query = view_of(b_query), options.b_key = view_of(b_key);
    options.w_score = view_of(w_score);
    if (b_score.data) {
        if (b_score.elements() != 1)
            throw InputError("--b-score", "has shape " + text_of(b_score.shape) + ", expected one number");
        options.b_score = float_at(b_score, 0);
    }
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
