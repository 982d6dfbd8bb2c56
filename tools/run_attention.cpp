// attune run sdpa, additive and mha: each is its score or layer, and shares the rest.
#include "attention.h"
#include "error.h"
#include "text.h"
#include <limits>

namespace attune::program {
namespace {

std::int64_t parse_heads(const char *argument, const std::string &text) {
    const std::int64_t heads = whole_number_of(argument, text);
    if (heads < 1 || heads > std::numeric_limits<std::int32_t>::max())
        throw InputError(argument, "must be from 1 to 2^31 - 1, got " + text);
    return heads;
}

}  // namespace

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
    MultiHeadOptions options;
    options.heads = parse_heads("--heads", given.heads);
    if (given.kv_heads) options.key_heads = parse_heads("--kv-heads", *given.kv_heads);
    Array w_query, w_key, w_value, w_out, b_query, b_key, b_value, b_out;
    files.input("--w-query", given.w_query, w_query, {2, 2, "(heads * D, Eq)"});
    files.input("--w-key", given.w_key, w_key, {2, 2, "(kv heads * D, Ek)"});
    files.input("--w-value", given.w_value, w_value, {2, 2, "(kv heads * Dv, Ev)"});
    files.input("--w-out", given.w_out, w_out, {2, 2, "(Eo, heads * Dv)"});
    files.input("--b-query", given.b_query, b_query, {1, 1, "(heads * D,)"});
    files.input("--b-key", given.b_key, b_key, {1, 1, "(kv heads * D,)"});
    files.input("--b-value", given.b_value, b_value, {1, 1, "(kv heads * Dv,)"});
    files.input("--b-out", given.b_out, b_out, {1, 1, "(Eo,)"});
    files.load();
    // As the library says it, but before results of that many heads are asked for.
    if (w_query.shape[0] % options.heads != 0)
        throw InputError("--heads", std::to_string(w_query.shape[0]) + " rows of --w-query are not divisible by " +
                                        std::to_string(options.heads) + " heads");
    const MultiHeadWeights weights = {view_of(w_query), view_of(w_key), view_of(w_value), view_of(w_out),
                                      view_of(b_query), view_of(b_key), view_of(b_value), view_of(b_out)};
    const auto call = [&](Context &context, const View &out, const SdpaOptions &shared) {
        options.attention = shared;
        return multi_head_attention(context, attention.query_view(), attention.key_view(), attention.value_view(), weights, out,
                                    options);
    };
    attention.run(w_out.shape[0], call, options.heads);
}

}  // namespace attune::program
