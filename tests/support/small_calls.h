// SPDX-License-Identifier: MIT
// A small call of every function, which tests spoil, force or lay out in another way.
#pragma once
#include "tests/support/small_call.h"
#include <memory>

namespace attune_test {

namespace small {
using attune::ConstView, attune::Context, attune::Status, attune::View;
using Sizes = SmallSizes;

struct Linear : SmallCall {
    ConstView x, weight, bias;
    View out;
    attune::LinearOptions options;
    explicit Linear(const Sizes &s) : SmallCall("linear") {
        input(x, {s.batch, s.queries, s.dim}), input(weight, {s.value_dim, s.dim}), input(bias, {s.value_dim});
        output(out, {s.batch, s.queries, s.value_dim});
    }
    Status run(Context &context) override { return attune::linear(context, x, weight, bias, out, options); }
    std::string_view *variant() override { return &options.variant; }
};

struct LinearBackward : SmallCall {
    ConstView x, weight, grad_out;
    attune::LinearGradients gradients;
    attune::LinearOptions options;
    explicit LinearBackward(const Sizes &s) : SmallCall("linear_backward") {
        input(x, {s.batch, s.queries, s.dim}), input(weight, {s.value_dim, s.dim});
        input(grad_out, {s.batch, s.queries, s.value_dim});
        output(gradients.x, {s.batch, s.queries, s.dim}), output(gradients.weight, {s.value_dim, s.dim});
        output(gradients.bias, {s.value_dim});
    }
    Status run(Context &context) override { return attune::linear_backward(context, x, weight, grad_out, gradients, options); }
    std::string_view *variant() override { return &options.variant; }
};

struct BatchDot : SmallCall {
    ConstView a, x;
    View out;
    attune::LinearOptions options;
    explicit BatchDot(const Sizes &s) : SmallCall("batch_dot") {
        input(a, {s.batch, s.heads, s.queries, s.keys}), input(x, {s.batch, s.heads, s.keys, s.value_dim});
        output(out, {s.batch, s.heads, s.queries, s.value_dim});
    }
    Status run(Context &context) override { return attune::batch_dot(context, a, x, out, options); }
    std::string_view *variant() override { return &options.variant; }
};

struct PackedLinear : SmallCall {
    ConstView x, weight, bias;
    View packed, out;
    explicit PackedLinear(const Sizes &s) : SmallCall("pack_linear_weight, linear") {
        const auto e = attune::packed_weight_extents(attune::DType::f32, s.value_dim, s.dim);
        input(x, {s.batch, s.queries, s.dim}), input(weight, {s.value_dim, s.dim}), input(bias, {s.value_dim});
        output(packed, {e[0], e[1], e[2]}), output(out, {s.batch, s.queries, s.value_dim});
    }
    Status run(Context &context) override {
        if (Status status = attune::pack_linear_weight(context, weight, packed); !status.ok()) return status;
        return attune::linear(context, x, packed, bias, out);
    }
};

// Attention with every option that may be combined.
struct Sdpa : SmallCall {
    ConstView query, key, value;
    View out;
    attune::SdpaOptions options;
    Sdpa(const Sizes &s, std::string called, attune::Score score, bool averaged, bool masked) : SmallCall(std::move(called)) {
        const bool general = score == attune::Score::general;
        const std::int64_t key_dim = general ? s.dim + 1 : s.dim;
        input(query, {s.batch, s.heads, s.queries, s.dim}), input(key, {s.batch, s.key_heads, s.keys, key_dim});
        input(value, {s.batch, s.key_heads, s.keys, s.value_dim});
        options.score = score;
        if (general) input(options.score_weight, {s.dim, key_dim});
        if (masked) {
            input(options.bias, {s.batch, s.heads, s.queries, s.keys}), mask(options.mask, {s.batch, 1, s.queries, s.keys});
            input(options.alibi_slopes, {s.batch, s.heads}), input(options.sinks, {s.heads});
            integers(options.offsets, {s.batch}, 0);
        }
        integers(options.valid_lens, {s.batch, s.queries}, length(s));
        options.average_weights = averaged;
        output(out, {s.batch, s.heads, s.queries, s.value_dim}), output(options.lse, {s.batch, s.heads, s.queries});
        if (averaged)
            output(options.weights, {s.batch, s.queries, s.keys});
        else
            output(options.weights, {s.batch, s.heads, s.queries, s.keys});
    }
    Status run(Context &context) override {
        return attune::scaled_dot_product_attention(context, query, key, value, out, options);
    }
    std::string_view *variant() override { return &options.variant; }
};

// Attention with weights and without lse: the values may be computed from the weights.
struct SdpaWeights : SmallCall {
    ConstView query, key, value;
    View out;
    attune::SdpaOptions options;
    explicit SdpaWeights(const Sizes &s) : SmallCall("sdpa, values from the weights") {
        input(query, {s.batch, s.heads, s.queries, s.dim}), input(key, {s.batch, s.key_heads, s.keys, s.dim});
        input(value, {s.batch, s.key_heads, s.keys, s.value_dim});
        integers(options.valid_lens, {s.batch}, length(s));
        output(out, {s.batch, s.heads, s.queries, s.value_dim});
        output(options.weights, {s.batch, s.heads, s.queries, s.keys});
    }
    Status run(Context &context) override {
        return attune::scaled_dot_product_attention(context, query, key, value, out, options);
    }
    std::string_view *variant() override { return &options.variant; }
};

struct SdpaBackward : SmallCall {
    ConstView query, key, value;
    attune::SdpaForward forward;
    attune::SdpaGradients gradients;
    attune::SdpaOptions options;
    SdpaBackward(const Sizes &s, std::string called, attune::Score score, bool masked) : SmallCall(std::move(called)) {
        const bool general = score == attune::Score::general;
        const std::int64_t key_dim = general ? s.dim + 1 : s.dim;
        input(query, {s.batch, s.heads, s.queries, s.dim}), input(key, {s.batch, s.key_heads, s.keys, key_dim});
        input(value, {s.batch, s.key_heads, s.keys, s.value_dim});
        input(forward.out, {s.batch, s.heads, s.queries, s.value_dim}), input(forward.lse, {s.batch, s.heads, s.queries}, 2);
        input(forward.grad_out, {s.batch, s.heads, s.queries, s.value_dim});
        input(forward.grad_lse, {s.batch, s.heads, s.queries});
        options.score = score;
        output(gradients.query, {s.batch, s.heads, s.queries, s.dim});
        output(gradients.key, {s.batch, s.key_heads, s.keys, key_dim});
        output(gradients.value, {s.batch, s.key_heads, s.keys, s.value_dim});
        integers(options.valid_lens, {s.batch, s.queries}, length(s));
        if (general) {
            input(options.score_weight, {s.dim, key_dim}), output(gradients.score_weight, {s.dim, key_dim});
        }
        if (!masked) return;
        input(options.bias, {s.batch, s.heads, s.queries, s.keys}), mask(options.mask, {s.batch, 1, s.queries, s.keys});
        input(options.alibi_slopes, {s.batch, s.heads}), input(options.sinks, {s.heads});
        output(gradients.bias, {s.batch, s.heads, s.queries, s.keys}), output(gradients.alibi_slopes, {s.batch, s.heads});
        output(gradients.sinks, {s.heads});
    }
    Status run(Context &context) override {
        return attune::scaled_dot_product_attention_backward(context, query, key, value, forward, gradients, options);
    }
    std::string_view *variant() override { return &options.variant; }
};

// Additive attention. `far` keys are beyond the range of the separable form, in the last batch entry alone.
struct Additive : SmallCall {
    ConstView query, key, value;
    View out;
    attune::AdditiveOptions options;
    Additive(const Sizes &s, std::string called, bool projected, bool averaged) : SmallCall(std::move(called)) {
        const std::int64_t h = s.dim;
        input(query, {s.batch, s.heads, s.queries, projected ? s.dim + 1 : h});
        input(key, {s.batch, s.key_heads, s.keys, projected ? s.dim + 2 : h});
        input(value, {s.batch, s.key_heads, s.keys, s.value_dim});
        if (projected) {
            input(options.w_query, {h, s.dim + 1}), input(options.w_key, {h, s.dim + 2});
            input(options.b_query, {h}), input(options.b_key, {h});
        } else if (s.batch * s.keys > 0) {
            const_cast<float *>(static_cast<const float *>(key.data))[s.batch * s.key_heads * s.keys * h - 1] = 30;
        }
        input(options.w_score, {h});
        options.attention.average_weights = averaged;
        output(out, {s.batch, s.heads, s.queries, s.value_dim}), output(options.attention.lse, {s.batch, s.heads, s.queries});
        if (averaged) output(options.attention.weights, {s.batch, s.queries, s.keys});
    }
    Status run(Context &context) override { return attune::additive_attention(context, query, key, value, out, options); }
    std::string_view *variant() override { return &options.attention.variant; }
};

struct AdditiveBackward : SmallCall {
    ConstView query, key, value;
    attune::SdpaForward forward;
    attune::AdditiveGradients gradients;
    attune::AdditiveOptions options;
    explicit AdditiveBackward(const Sizes &s) : SmallCall("additive_backward") {
        const std::int64_t h = s.dim, dq = s.dim + 1, dk = s.dim + 2;
        input(query, {s.batch, s.heads, s.queries, dq}), input(key, {s.batch, s.key_heads, s.keys, dk});
        input(value, {s.batch, s.key_heads, s.keys, s.value_dim});
        input(forward.out, {s.batch, s.heads, s.queries, s.value_dim}), input(forward.lse, {s.batch, s.heads, s.queries}, 2);
        input(forward.grad_out, {s.batch, s.heads, s.queries, s.value_dim});
        input(options.w_query, {h, dq}), input(options.w_key, {h, dk}), input(options.b_query, {h}), input(options.b_key, {h});
        input(options.w_score, {h}), input(options.attention.sinks, {s.heads});
        input(options.attention.bias, {s.queries, s.keys});
        output(gradients.query, {s.batch, s.heads, s.queries, dq}), output(gradients.key, {s.batch, s.key_heads, s.keys, dk});
        output(gradients.value, {s.batch, s.key_heads, s.keys, s.value_dim}), output(gradients.w_query, {h, dq});
        output(gradients.w_key, {h, dk}), output(gradients.b_query, {h}), output(gradients.b_key, {h});
        output(gradients.w_score, {h}), output(gradients.sinks, {s.heads}), output(gradients.bias, {s.queries, s.keys});
    }
    Status run(Context &context) override {
        return attune::additive_attention_backward(context, query, key, value, forward, gradients, options);
    }
    std::string_view *variant() override { return &options.attention.variant; }
};

struct MultiHead : SmallCall {
    ConstView query, key, value;
    attune::MultiHeadWeights weights;
    View out;
    attune::MultiHeadOptions options;
    explicit MultiHead(const Sizes &s) : SmallCall("multi_head") {
        const std::int64_t width = s.dim + 1;
        options.heads = s.heads, options.key_heads = s.key_heads;
        input(query, {s.batch, s.queries, width}), input(key, {s.batch, s.keys, width}), input(value, {s.batch, s.keys, width});
        input(weights.query, {s.heads * s.dim, width}), input(weights.key, {s.key_heads * s.dim, width});
        input(weights.value, {s.key_heads * s.value_dim, width}), input(weights.out, {width, s.heads * s.value_dim});
        input(weights.query_bias, {s.heads * s.dim}), input(weights.key_bias, {s.key_heads * s.dim});
        input(weights.value_bias, {s.key_heads * s.value_dim}), input(weights.out_bias, {width});
        output(out, {s.batch, s.queries, width}), output(options.attention.lse, {s.batch, s.heads, s.queries});
        output(options.attention.weights, {s.batch, s.heads, s.queries, s.keys});
    }
    Status run(Context &context) override {
        return attune::multi_head_attention(context, query, key, value, weights, out, options);
    }
    std::string_view *variant() override { return &options.attention.variant; }
};

struct MultiHeadBackward : SmallCall {
    ConstView query, key, value, grad_out;
    attune::MultiHeadWeights weights;
    attune::MultiHeadGradients gradients;
    attune::MultiHeadOptions options;
    explicit MultiHeadBackward(const Sizes &s) : SmallCall("multi_head_backward") {
        const std::int64_t width = s.dim + 1;
        options.heads = s.heads, options.key_heads = s.key_heads;
        attune::MultiHeadWeightGradients &g = gradients.weights;
        input(query, {s.batch, s.queries, width}), input(key, {s.batch, s.keys, width}), input(value, {s.batch, s.keys, width});
        input(weights.query, {s.heads * s.dim, width}), input(weights.key, {s.key_heads * s.dim, width});
        input(weights.value, {s.key_heads * s.value_dim, width}), input(weights.out, {width, s.heads * s.value_dim});
        input(weights.query_bias, {s.heads * s.dim}), input(weights.out_bias, {width});
        input(options.attention.sinks, {s.heads}), input(grad_out, {s.batch, s.queries, width});
        output(gradients.query, {s.batch, s.queries, width}), output(gradients.key, {s.batch, s.keys, width});
        output(gradients.value, {s.batch, s.keys, width}), output(g.query, {s.heads * s.dim, width});
        output(g.key, {s.key_heads * s.dim, width}), output(g.value, {s.key_heads * s.value_dim, width});
        output(g.out, {width, s.heads * s.value_dim}), output(g.query_bias, {s.heads * s.dim});
        output(g.out_bias, {width}), output(gradients.attention.sinks, {s.heads});
    }
    Status run(Context &context) override {
        return attune::multi_head_attention_backward(context, query, key, value, weights, grad_out, gradients, options);
    }
    std::string_view *variant() override { return &options.attention.variant; }
};

// A packed batch of sequences of one query and of many, which take different variants.
struct PackedBatch : SmallCall {
    ConstView query, key, value, query_ends, key_ends;
    attune::SdpaOptions options;
    PackedBatch(const Sizes &s, std::string called) : SmallCall(std::move(called)) {
        const std::int64_t queries = 40 * s.queries, keys = 40 * s.keys;
        input(query, {queries, s.heads, s.dim}), input(key, {keys, s.key_heads, s.dim});
        input(value, {keys, s.key_heads, s.value_dim}), input(options.alibi_slopes, {2, s.heads});
        integers(query_ends, {3}, std::int32_t(queries)), integers(key_ends, {3}, std::int32_t(keys));
        for (const ConstView *ends : {&query_ends, &key_ends}) {
            auto *at = const_cast<std::int32_t *>(static_cast<const std::int32_t *>(ends->data));
            at[0] = 0, at[1] = 1;
        }
        options.causal = attune::Causal::bottom_right;
    }
    std::string_view *variant() override { return &options.variant; }
};

struct VariableLength : PackedBatch {
    View out;
    explicit VariableLength(const Sizes &s) : PackedBatch(s, "variable_length") {
        output(out, {40 * s.queries, s.heads, s.value_dim}), output(options.lse, {s.heads, 40 * s.queries});
    }
    Status run(Context &context) override {
        return attune::variable_length_attention(context, query, key, value, query_ends, key_ends, out, options);
    }
};

struct VariableLengthBackward : PackedBatch {
    attune::SdpaForward forward;
    attune::SdpaGradients gradients;
    explicit VariableLengthBackward(const Sizes &s) : PackedBatch(s, "variable_length_backward") {
        const std::int64_t queries = 40 * s.queries, keys = 40 * s.keys;
        input(forward.out, {queries, s.heads, s.value_dim}), input(forward.grad_out, {queries, s.heads, s.value_dim});
        input(forward.lse, {s.heads, queries}), input(forward.grad_lse, {s.heads, queries});
        output(gradients.query, {queries, s.heads, s.dim}), output(gradients.key, {keys, s.key_heads, s.dim});
        output(gradients.value, {keys, s.key_heads, s.value_dim}), output(gradients.alibi_slopes, {2, s.heads});
    }
    Status run(Context &context) override {
        return attune::variable_length_attention_backward(context, query, key, value, query_ends, key_ends, forward, gradients,
                                                          options);
    }
};

struct Merge : SmallCall {
    ConstView out_a, lse_a, out_b, lse_b;
    View out, lse;
    explicit Merge(const Sizes &s) : SmallCall("merge") {
        for (ConstView *v : {&out_a, &out_b}) input(*v, {s.batch, s.heads, s.queries, s.value_dim});
        for (ConstView *v : {&lse_a, &lse_b}) input(*v, {s.batch, s.heads, s.queries});
        output(out, {s.batch, s.heads, s.queries, s.value_dim}), output(lse, {s.batch, s.heads, s.queries});
    }
    Status run(Context &context) override { return attune::merge_attention(context, out_a, lse_a, out_b, lse_b, out, lse); }
};

struct MaskedSoftmax : SmallCall {
    ConstView scores;
    View out;
    attune::MaskedSoftmaxOptions options;
    explicit MaskedSoftmax(const Sizes &s) : SmallCall("masked_softmax") {
        input(scores, {s.batch, s.heads, s.queries, s.keys}), integers(options.valid_lens, {s.batch, s.queries}, length(s));
        output(out, {s.batch, s.heads, s.queries, s.keys});
    }
    Status run(Context &context) override { return attune::masked_softmax(context, scores, out, options); }
    std::string_view *variant() override { return &options.variant; }
};

struct MaskedSoftmaxBackward : SmallCall {
    ConstView out, grad_out;
    View grad_scores;
    attune::MaskedSoftmaxOptions options;
    explicit MaskedSoftmaxBackward(const Sizes &s) : SmallCall("masked_softmax_backward") {
        for (ConstView *v : {&out, &grad_out}) input(*v, {s.batch, s.heads, s.queries, s.keys});
        integers(options.valid_lens, {s.batch, s.queries}, length(s)),
            output(grad_scores, {s.batch, s.heads, s.queries, s.keys});
    }
    Status run(Context &context) override {
        return attune::masked_softmax_backward(context, out, grad_out, grad_scores, options);
    }
    std::string_view *variant() override { return &options.variant; }
};

struct DropoutMask : SmallCall {
    View out;
    explicit DropoutMask(const Sizes &s) : SmallCall("dropout_mask") {
        output(out, {s.batch, s.heads, s.queries, s.keys}, attune::DType::boolean);
    }
    Status run(Context &context) override { return attune::dropout_mask(context, {.probability = 0.5}, out); }
};

struct KvAppend : SmallCall {
    ConstView key, value, lens;
    View key_cache, value_cache;
    attune::KvAppendOptions options;
    explicit KvAppend(const Sizes &s) : SmallCall("kv_append") {
        input(key, {s.batch, s.key_heads, s.keys, s.dim}), input(value, {s.batch, s.key_heads, s.keys, s.value_dim});
        integers(lens, {s.batch}, 0), integers(options.new_lens, {s.batch}, std::int32_t(s.keys));
        output(key_cache, {s.batch, s.key_heads, s.keys, s.dim}),
            output(value_cache, {s.batch, s.key_heads, s.keys, s.value_dim});
    }
    Status run(Context &context) override {
        return attune::kv_append(context, key, value, lens, key_cache, value_cache, options);
    }
};

// Steps that suit any head size: RoPE where it is even.
struct RowsSmallCall : SmallCall {
    ConstView x, positions;
    attune::RowSteps steps;
    RowsSmallCall(const Sizes &s, const std::string &called) : SmallCall(called) {
        input(x, {s.batch, s.heads, s.queries, s.dim}), input(steps.norm_weight, {s.heads, s.dim});
        if (s.dim % 2 != 0) return;
        input(steps.rope.cos, {3, s.dim / 2}), input(steps.rope.sin, {3, s.dim / 2});
        integers(positions, {s.batch, s.queries}, 2);
    }
};
struct TransformRows : RowsSmallCall {
    View out;
    explicit TransformRows(const Sizes &s) : RowsSmallCall(s, "transform_rows") {
        output(out, {s.batch, s.heads, s.queries, s.dim});
    }
    Status run(Context &context) override { return attune::transform_rows(context, x, positions, out, steps); }
};
struct TransformRowsBackward : RowsSmallCall {
    ConstView grad_out;
    View grad_x, grad_weight;
    explicit TransformRowsBackward(const Sizes &s) : RowsSmallCall(s, "transform_rows_backward") {
        input(grad_out, {s.batch, s.heads, s.queries, s.dim});
        output(grad_x, {s.batch, s.heads, s.queries, s.dim}), output(grad_weight, {s.heads, s.dim});
    }
    Status run(Context &context) override {
        return attune::transform_rows_backward(context, x, positions, grad_out, grad_x, grad_weight, steps);
    }
};

inline std::vector<std::unique_ptr<SmallCall>> calls(const Sizes &s = {}) {
    std::vector<std::unique_ptr<SmallCall>> all;
    const auto add = [&](auto *call) { all.emplace_back(call); };
    using attune::Score;
    add(new Linear(s)), add(new LinearBackward(s)), add(new BatchDot(s)), add(new PackedLinear(s));
    add(new Sdpa(s, "sdpa", Score::dot_product, false, true)),
        add(new Sdpa(s, "sdpa, averaged", Score::dot_product, true, true));
    add(new Sdpa(s, "sdpa, no options", Score::dot_product, true, false));
    add(new Sdpa(s, "general", Score::general, false, true)), add(new Sdpa(s, "cosine", Score::cosine, true, false));
    add(new SdpaWeights(s)), add(new SdpaBackward(s, "sdpa_backward", Score::dot_product, true));
    add(new SdpaBackward(s, "sdpa_backward, no options", Score::dot_product, false));
    add(new SdpaBackward(s, "general_backward", Score::general, true));
    add(new SdpaBackward(s, "gaussian_backward", Score::gaussian, true));
    add(new Additive(s, "additive", false, false)), add(new Additive(s, "additive, projected and averaged", true, true));
    add(new AdditiveBackward(s)), add(new MultiHead(s)), add(new MultiHeadBackward(s)), add(new VariableLength(s));
    add(new VariableLengthBackward(s));
    add(new Merge(s)), add(new MaskedSoftmax(s)), add(new MaskedSoftmaxBackward(s)), add(new DropoutMask(s));
    add(new KvAppend(s)), add(new TransformRows(s)), add(new TransformRowsBackward(s));
    return all;
}
}  // namespace small

}  // namespace attune_test
