// SPDX-License-Identifier: MIT
// A call of each function of the library, on inputs that are the same in every process, and its outputs as bytes. For tests of
// the circumstances of calls: floating-point state, lack of memory, processes that fork or end.
#pragma once
#include "attune/attune.h"
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

namespace attune_test {

// Outputs of calls, as bytes.
class Outputs {
public:
    template<typename T> attune::View make(std::initializer_list<std::int64_t> extents) {
        std::size_t count = 1;
        for (std::int64_t e : extents) count *= std::size_t(e);
        std::vector<char> &memory = all_.emplace_back(count * sizeof(T));
        return attune::View(reinterpret_cast<T *>(memory.data()), extents);
    }
    std::vector<char> bytes() const {
        std::vector<char> bytes;
        for (const std::vector<char> &one : all_) bytes.insert(bytes.end(), one.begin(), one.end());
        return bytes;
    }

private:
    std::deque<std::vector<char>> all_;
};

// An input of at most 50000 elements of a type; one number in sixteen is subnormal in f32.
template<typename T> const T *input(int seed, double spread = 1.7) {
    static auto &all = *new std::array<std::vector<T>, 16>;  // for calls at exit
    std::vector<T> &values = all[std::size_t(seed)];
    std::uint32_t state = 12345u + std::uint32_t(seed);
    while (values.size() < 50000) {
        state = state * 1664525u + 1013904223u;
        const double x = (double(state >> 8) / (1 << 23) - 1) * spread, y = values.size() % 16 == 5 ? x * 1e-39 : x;
        if constexpr (std::is_same_v<T, attune::bfloat16>)
            values.push_back(attune::to_bfloat16(y));
        else if constexpr (std::is_same_v<T, attune::float16>)
            values.push_back(attune::to_float16(y));
        else
            values.push_back(T(y));
    }
    return values.data();
}

// Makes all inputs, for tests that need them before the calls.
inline void make_inputs() {
    for (int seed = 0; seed < 10; seed++)
        input<float>(seed), input<double>(seed), input<attune::bfloat16>(seed), input<attune::float16>(seed);
}

struct OpCall {
    std::string name;
    std::function<attune::Status(attune::Context &, Outputs &)> run;
};

// Sizes of attention of (B, H, Sq, D) over (B, H, Sk, D).
struct OpSizes {
    std::int64_t b = 2, h = 4, q = 40, k = 110, d = 24;
};

template<typename T> OpCall attention_call(const std::string &name, const OpSizes &s, const attune::SdpaOptions &options) {
    return {name, [=](attune::Context &context, Outputs &outputs) {
                attune::SdpaOptions o = options;
                using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
                o.lse = outputs.make<Sum>({s.b, s.h, s.q});
                if (o.weights_mode == attune::WeightsMode::masked)
                    o.weights = outputs.make<T>({s.b, s.q, s.k}), o.average_weights = true,
                    o.weights_mode = attune::WeightsMode::probabilities;
                return attune::scaled_dot_product_attention(
                    context, {input<T>(0), {s.b, s.h, s.q, s.d}}, {input<T>(1), {s.b, s.h, s.k, s.d}},
                    {input<T>(2), {s.b, s.h, s.k, s.d}}, outputs.make<T>({s.b, s.h, s.q, s.d}), o);
            }};
}

// Options with masks that hide some keys of some queries, and all keys of others.
inline attune::SdpaOptions scored_options(const OpSizes &s, bool dropout = false) {
    static const std::int32_t lengths[] = {100, 0};
    attune::SdpaOptions o;
    o.softcap = 7, o.alibi = true, o.causal = attune::Causal::bottom_right;
    o.bias = {input<float>(3), {s.q, s.k}}, o.sinks = {input<float>(4), {s.h}}, o.valid_lens = {lengths, {s.b}};
    if (dropout) o.dropout = {0.3, 5, 1};
    return o;
}

inline attune::Status attention_and_gradients(attune::Context &context, Outputs &outputs, const OpSizes &s,
                                              const attune::SdpaOptions &options) {
    const attune::ConstView query(input<float>(0), {s.b, s.h, s.q, s.d}), key(input<float>(1), {s.b, s.h, s.k, s.d}),
        value(input<float>(2), {s.b, s.h, s.k, s.d}), grad_out(input<float>(5), {s.b, s.h, s.q, s.d});
    const attune::View out = outputs.make<float>({s.b, s.h, s.q, s.d});
    attune::SdpaOptions o = options;
    o.lse = outputs.make<float>({s.b, s.h, s.q});
    if (attune::Status status = attune::scaled_dot_product_attention(context, query, key, value, out, o); !status.ok())
        return status;
    attune::SdpaGradients gradients{.query = outputs.make<float>({s.b, s.h, s.q, s.d}),
                                    .key = outputs.make<float>({s.b, s.h, s.k, s.d}),
                                    .value = outputs.make<float>({s.b, s.h, s.k, s.d})};
    if (o.bias.given()) gradients.bias = outputs.make<float>({s.q, s.k});
    if (o.sinks.given()) gradients.sinks = outputs.make<float>({s.h});
    const attune::SdpaForward forward{.out = out, .lse = o.lse, .grad_out = grad_out};
    o.lse = {};
    return attune::scaled_dot_product_attention_backward(context, query, key, value, forward, gradients, o);
}

inline attune::Status additive_and_gradients(attune::Context &context, Outputs &outputs, const OpSizes &s) {
    static const std::int32_t lengths[] = {21, 3};
    const std::int64_t h = 8;
    const attune::ConstView query(input<float>(0), {s.b, s.q, s.d}), key(input<float>(1), {s.b, s.k, s.d}),
        value(input<float>(2), {s.b, s.k, s.d}), grad_out(input<float>(5), {s.b, s.q, s.d});
    attune::AdditiveOptions o{
        .w_query = {input<float>(6), {h, s.d}}, .w_key = {input<float>(7), {h, s.d}}, .w_score = {input<float>(8), {h}}};
    o.attention.valid_lens = {lengths, {s.b}}, o.attention.lse = outputs.make<float>({s.b, s.q});
    const attune::View out = outputs.make<float>({s.b, s.q, s.d});
    if (attune::Status status = attune::additive_attention(context, query, key, value, out, o); !status.ok()) return status;
    const attune::SdpaForward forward{.out = out, .lse = o.attention.lse, .grad_out = grad_out};
    o.attention.lse = {};
    const attune::AdditiveGradients gradients{.query = outputs.make<float>({s.b, s.q, s.d}),
                                              .key = outputs.make<float>({s.b, s.k, s.d}),
                                              .value = outputs.make<float>({s.b, s.k, s.d}),
                                              .w_query = outputs.make<float>({h, s.d}),
                                              .w_score = outputs.make<float>({h})};
    return attune::additive_attention_backward(context, query, key, value, forward, gradients, o);
}

inline attune::Status products(attune::Context &context, Outputs &outputs, const OpSizes &s) {
    const std::int64_t rows = s.b * s.q, depth = 4 * s.d, columns = 70;
    const attune::ConstView x(input<float>(0), {rows, depth}), weight(input<float>(1), {columns, depth}),
        bias(input<float>(2), {columns}), grad_out(input<float>(3), {rows, columns});
    const auto [panels, pairs, panel] = attune::packed_weight_extents(attune::DType::f32, columns, depth);
    const attune::View packed = outputs.make<float>({panels, pairs, panel});
    const auto all = {attune::linear(context, x, weight, bias, outputs.make<float>({rows, columns})),
                      attune::linear(context, {input<double>(0), {rows, depth}}, {input<double>(1), {columns, depth}}, {},
                                     outputs.make<double>({rows, columns})),
                      attune::batch_dot(context, {input<float>(0), {s.b, s.q, s.d}}, {input<float>(1), {s.b, s.d, s.k}},
                                        outputs.make<float>({s.b, s.q, s.k})),
                      attune::pack_linear_weight(context, weight, packed),
                      attune::linear_backward(context, x, weight, grad_out,
                                              {outputs.make<float>({rows, depth}), outputs.make<float>({columns, depth}),
                                               outputs.make<float>({columns})})};
    for (const attune::Status &status : all)
        if (!status.ok()) return status;
    return {};
}

inline attune::Status softmax_and_merge(attune::Context &context, Outputs &outputs, const OpSizes &s) {
    static const std::int32_t lengths[] = {17, 0};
    const attune::MaskedSoftmaxOptions o{.valid_lens = {lengths, {s.b}}};
    const attune::View weights = outputs.make<float>({s.b, s.q, s.k});
    const auto extents = {s.b, s.h, s.q, s.d};
    const auto all = {attune::masked_softmax(context, {input<float>(0), {s.b, s.q, s.k}}, weights, o),
                      attune::masked_softmax_backward(context, weights, {input<float>(1), {s.b, s.q, s.k}},
                                                      outputs.make<float>({s.b, s.q, s.k}), o),
                      attune::merge_attention(context, {input<float>(2), extents}, {input<float>(3), {s.b, s.h, s.q}},
                                              {input<float>(4), extents}, {input<float>(5), {s.b, s.h, s.q}},
                                              outputs.make<float>(extents), outputs.make<float>({s.b, s.h, s.q})),
                      attune::dropout_mask(context, {0.4, 9, 2}, outputs.make<bool>({s.b, s.h, s.q, s.k}))};
    for (const attune::Status &status : all)
        if (!status.ok()) return status;
    return {};
}

inline attune::Status layer_and_gradients(attune::Context &context, Outputs &outputs, const OpSizes &s) {
    const std::int64_t e = 2 * s.d;
    const attune::ConstView x(input<float>(0), {s.b, s.q, e}), weight(input<float>(1, 0.3), {e, e}),
        grad_out(input<float>(2), {s.b, s.q, e});
    const attune::MultiHeadWeights weights{.query = weight, .key = weight, .value = weight, .out = weight};
    const attune::MultiHeadOptions o{.heads = 2, .attention = {.causal = attune::Causal::top_left}};
    attune::Status status = attune::multi_head_attention(context, x, x, x, weights, outputs.make<float>({s.b, s.q, e}), o);
    if (!status.ok()) return status;
    const attune::MultiHeadGradients gradients{.query = outputs.make<float>({s.b, s.q, e}),
                                               .weights = {.value = outputs.make<float>({e, e})}};
    return attune::multi_head_attention_backward(context, x, x, x, weights, grad_out, gradients, o);
}

inline attune::Status packed_and_cached(attune::Context &context, Outputs &outputs, const OpSizes &s) {
    static const std::int32_t ends[] = {0, 13, 13, 40}, held[] = {3, 0};
    const attune::ConstView rows(input<float>(0), {40, s.h, s.d}), more(input<float>(1), {s.b, s.h, 5, s.d});
    attune::Status status = attune::variable_length_attention(context, rows, rows, rows, {ends, {4}}, {ends, {4}},
                                                              outputs.make<float>({40, s.h, s.d}), {});
    if (!status.ok()) return status;
    attune::SdpaGradients gradients;
    gradients.query = outputs.make<float>({40, s.h, s.d}), gradients.key = outputs.make<float>({40, s.h, s.d});
    status = attune::variable_length_attention_backward(context, rows, rows, rows, {ends, {4}}, {ends, {4}},
                                                        {rows, {input<float>(4), {s.h, 40}}, rows}, gradients);
    if (!status.ok()) return status;
    attune::SdpaProblem problem{
        .batch = s.b, .query_heads = s.h, .key_heads = s.h, .queries = 77, .keys = 300, .head_dim = 64, .value_dim = 64};
    attune::Plan plan;
    if (status = attune::plan_sdpa(context, problem, plan); !status.ok()) return status;
    *static_cast<std::int32_t *>(outputs.make<std::int32_t>({1}).data) = std::int32_t(plan.variant.size());
    return attune::kv_append(context, more, more, {held, {s.b}}, outputs.make<float>({s.b, s.h, 9, s.d}),
                             outputs.make<float>({s.b, s.h, 9, s.d}));
}

// Norm, RoPE and, where the head size allows it, the Hadamard rotation; their gradients; rows into pages of int8 and int4.
inline attune::Status rows_and_pages(attune::Context &context, Outputs &outputs, const OpSizes &s) {
    static const std::int32_t positions[] = {7, 0, 3, 900, 12, 5};
    static const std::int64_t slots[] = {17, -1, 0, 5, 31, 2};
    const attune::ConstView rows(input<float>(0), {6, s.h, s.d}), weight(input<float>(1), {s.d});
    attune::RowSteps steps{.norm_weight = weight, .hadamard = s.d % 8 == 0};
    if (s.d % 2 == 0) steps.rope.base = 10000;
    const attune::View out = outputs.make<float>({6, s.h, s.d});
    const attune::Pages keys(outputs.make<std::int8_t>({2, 16, s.h, s.d}), outputs.make<float>({2, 16, s.h}));
    const attune::Pages values(outputs.make<std::uint8_t>({2, 16, s.h, s.d / 2}),
                               outputs.make<attune::float16>({2, 16, s.h, 1}), outputs.make<attune::float16>({2, 16, s.h, 1}));
    for (const attune::Status &status :
         {attune::transform_rows(context, rows, {positions, {6}}, out, steps),
          attune::transform_rows_backward(context, rows, {positions, {6}}, {input<float>(2), {6, s.h, s.d}},
                                          outputs.make<float>({6, s.h, s.d}), outputs.make<float>({s.d}), steps),
          attune::paged_append(context, rows, {input<float>(3), {6, s.h, s.d / 2 * 2}}, {slots, {6}}, keys, values,
                               {.key_steps = steps, .positions = {positions, {6}}})})
        if (!status.ok()) return status;
    return {};
}

inline std::vector<OpCall> op_calls(const OpSizes &s) {
    attune::SdpaOptions average, cosine, gaussian, general;
    average.weights_mode = attune::WeightsMode::masked;  // attention_call() wants the mean of the weights
    cosine.score = attune::Score::cosine, gaussian.score = attune::Score::gaussian;
    general.score = attune::Score::general, general.score_weight = {input<float>(9), {s.d, s.d}};
    std::vector<OpCall> all = {attention_call<float>("sdpa f32", s, {}),
                               attention_call<float>("sdpa f32, scored", s, scored_options(s)),
                               attention_call<float>("sdpa f32, dropout", s, scored_options(s, true)),
                               attention_call<float>("sdpa f32, mean of the weights", s, average),
                               attention_call<double>("sdpa f64", s, {.causal = attune::Causal::bottom_right}),
                               attention_call<attune::bfloat16>("sdpa bf16", s, {.causal = attune::Causal::bottom_right}),
                               attention_call<attune::float16>("sdpa f16", s, {}),
                               attention_call<float>("cosine", s, cosine),
                               attention_call<float>("gaussian", s, gaussian),
                               attention_call<float>("general", s, general)};
    const auto add = [&](const std::string &name, auto run) {
        all.push_back({name, [=](attune::Context &context, Outputs &outputs) { return run(context, outputs, s); }});
    };
    add("gradients of sdpa", [](auto &context, auto &outputs, auto &sizes) {
        return attention_and_gradients(context, outputs, sizes, {.causal = attune::Causal::top_left});
    });
    add("gradients of sdpa, dropout", [](auto &context, auto &outputs, auto &sizes) {
        return attention_and_gradients(context, outputs, sizes, scored_options(sizes, true));
    });
    add("additive and gradients",
        [](auto &context, auto &outputs, auto &sizes) { return additive_and_gradients(context, outputs, sizes); });
    add("products", [](auto &context, auto &outputs, auto &sizes) { return products(context, outputs, sizes); });
    add("softmax and merge",
        [](auto &context, auto &outputs, auto &sizes) { return softmax_and_merge(context, outputs, sizes); });
    add("layer and gradients",
        [](auto &context, auto &outputs, auto &sizes) { return layer_and_gradients(context, outputs, sizes); });
    add("packed and cached",
        [](auto &context, auto &outputs, auto &sizes) { return packed_and_cached(context, outputs, sizes); });
    add("rows and pages", [](auto &context, auto &outputs, auto &sizes) { return rows_and_pages(context, outputs, sizes); });
    return all;
}

}  // namespace attune_test
