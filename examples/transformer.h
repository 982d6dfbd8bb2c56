// SPDX-License-Identifier: MIT
// A small decoder (Vaswani et al., 2017, with RMS norms, RoPE and grouped-query attention) over packed sequences, and its
// gradients. T is float to learn, and double to compare gradients with finite differences.
#pragma once
#include "learning.h"
#include <algorithm>
#include <numeric>
#include <span>

namespace examples {

// Sequences one after another: each token, its position, and the ends of sequences.
struct Packed {
    std::vector<std::int32_t> tokens, positions, ends = {0};
    std::int64_t rows() const { return std::int64_t(tokens.size()); }
    void add(const std::int32_t *first, std::size_t count) {
        tokens.insert(tokens.end(), first, first + count);
        positions.resize(tokens.size());
        std::iota(positions.end() - std::ptrdiff_t(count), positions.end(), 0);
        ends.push_back(std::int32_t(tokens.size()));
    }
};

struct Sizes {
    std::int64_t vocabulary, width, layers, heads, key_heads, head_dim, hidden;
    std::int64_t qkv() const { return (heads + 2 * key_heads) * head_dim; }
};

// RMS norm of rows (T, width), by transform_rows().
template<typename T> struct Norm {
    ParameterOf<T> weight;
    explicit Norm(std::int64_t width) : weight({width}) {
        std::fill(weight.value.numbers.begin(), weight.value.numbers.end(), T(1));
    }

    static attune::View rows(ArrayOf<T> &x) { return {x.numbers, {x.shape[0], 1, x.shape[1]}}; }
    static attune::ConstView rows(const ArrayOf<T> &x) { return {x.numbers, {x.shape[0], 1, x.shape[1]}}; }
    ArrayOf<T> forward(attune::Context &context, const ArrayOf<T> &x) const {
        ArrayOf<T> out(x.shape);
        require(attune::transform_rows(context, rows(x), {}, rows(out), {.norm_weight = weight.value}));
        return out;
    }
    ArrayOf<T> backward(attune::Context &context, const ArrayOf<T> &x, const ArrayOf<T> &grad_out) {
        ArrayOf<T> by_x(x.shape), by_weight(weight.value.shape);
        require(attune::transform_rows_backward(context, rows(x), {}, rows(grad_out), rows(by_x), by_weight,
                                                {.norm_weight = weight.value}));
        add(by_weight, weight.gradient);
        return by_x;
    }
};

// x Phi(x), and its derivative Phi(x) + x phi(x).
template<typename T> T gelu(T x) { return x / 2 * (1 + std::erf(x * T(0.70710678118654752))); }
template<typename T> T gelu_derivative(T x) {
    const T density = std::exp(-x * x / 2) * T(0.39894228040143268);
    return (1 + std::erf(x * T(0.70710678118654752))) / 2 + x * density;
}

// x + attention(norm(x)), then y + feed_forward(norm(y)).
template<typename T> class Block {
public:
    explicit Block(const Sizes &s)
        : sizes_(s), norm_(s.width), feed_norm_(s.width), qkv_(s.qkv(), s.width), out_(s.width, s.heads * s.head_dim),
          up_(s.hidden, s.width), down_(s.width, s.hidden) {}

    // Values of the forward pass that the backward pass needs.
    struct Kept {
        ArrayOf<T> x{{0}}, normed{{0}}, qkv{{0}}, attended{{0}}, lse{{0}}, y{{0}}, feed_normed{{0}}, up{{0}}, active{{0}};
    };
    ArrayOf<T> forward(attune::Context &context, const Packed &packed, const ArrayOf<T> &x, Kept *kept) const {
        const std::int64_t rows = packed.rows();
        ArrayOf<T> normed = norm_.forward(context, x), qkv = qkv_.forward(context, normed),
                   attended({rows, sizes_.heads * sizes_.head_dim}), lse({sizes_.heads, rows});
        const attune::View turned = heads_of(qkv, 0, sizes_.heads + sizes_.key_heads);
        require(attune::transform_rows(context, turned, packed.positions, turned, rope()));
        attune::SdpaOptions options = causal();
        options.lse = lse;
        require(attune::variable_length_attention(context, query(qkv), key(qkv), value(qkv), packed.ends, packed.ends,
                                                  heads_of(attended, 0, sizes_.heads), options));
        ArrayOf<T> y = out_.forward(context, attended);
        add(x, y);
        ArrayOf<T> feed_normed = feed_norm_.forward(context, y), up = up_.forward(context, feed_normed), active = up;
        for (T &a : active.numbers) a = gelu(a);
        ArrayOf<T> next = down_.forward(context, active);
        add(y, next);
        if (kept) *kept = {x, normed, qkv, attended, lse, y, feed_normed, up, active};
        return next;
    }

    // The gradient by x, from that by the result; those of the parameters are added to theirs.
    ArrayOf<T> backward(attune::Context &context, const Packed &packed, Kept &k, const ArrayOf<T> &by_next) {
        ArrayOf<T> by_up = down_.backward(context, k.active, by_next);
        for (std::size_t n = 0; n < by_up.numbers.size(); n++) by_up.numbers[n] *= gelu_derivative(k.up.numbers[n]);
        ArrayOf<T> by_y = feed_norm_.backward(context, k.y, up_.backward(context, k.feed_normed, by_up));
        add(by_next, by_y);

        ArrayOf<T> by_attended = out_.backward(context, k.attended, by_y), by_turned(k.qkv.shape), by_qkv(k.qkv.shape);
        attune::SdpaGradients wanted;
        wanted.query = query(by_turned), wanted.key = key(by_turned), wanted.value = value(by_qkv);
        const attune::SdpaForward forward{heads_of(k.attended, 0, sizes_.heads), k.lse, heads_of(by_attended, 0, sizes_.heads)};
        require(attune::variable_length_attention_backward(context, query(k.qkv), key(k.qkv), value(k.qkv), packed.ends,
                                                           packed.ends, forward, wanted, causal()));
        const std::int64_t turned = sizes_.heads + sizes_.key_heads;
        require(attune::transform_rows_backward(context, heads_of(k.qkv, 0, turned), packed.positions,
                                                heads_of(by_turned, 0, turned), heads_of(by_qkv, 0, turned), {}, rope()));
        ArrayOf<T> by_x = norm_.backward(context, k.x, qkv_.backward(context, k.normed, by_qkv));
        add(by_y, by_x);
        return by_x;
    }

    template<typename F> void each_parameter(const F &f) {
        f("norm", norm_.weight), f("feed norm", feed_norm_.weight);
        for (auto &[name, layer] : {std::pair("query, key, value", &qkv_), {"out", &out_}, {"up", &up_}, {"down", &down_}})
            f(name, layer->weight), f(name, layer->bias);
    }

private:
    // `count` heads from `first` on of rows (T, heads * head size): no copy splits or merges them.
    attune::View heads_of(ArrayOf<T> &x, std::int64_t first, std::int64_t count) const {
        const std::int64_t row = x.shape[1], d = sizes_.head_dim;
        return {std::span<T>(x.numbers).subspan(std::size_t(x.shape[0] ? first * d : 0)), {x.shape[0], count, d}, {row, d, 1}};
    }
    attune::View query(ArrayOf<T> &x) const { return heads_of(x, 0, sizes_.heads); }
    attune::View key(ArrayOf<T> &x) const { return heads_of(x, sizes_.heads, sizes_.key_heads); }
    attune::View value(ArrayOf<T> &x) const { return heads_of(x, sizes_.heads + sizes_.key_heads, sizes_.key_heads); }
    static attune::SdpaOptions causal() { return {.causal = attune::Causal::top_left}; }
    static attune::RowSteps rope() { return {.rope = {.base = 100}}; }

    Sizes sizes_;
    Norm<T> norm_, feed_norm_;
    LayerOf<T> qkv_, out_, up_, down_;
};

template<typename T> class Transformer {
public:
    explicit Transformer(const Sizes &s)
        : sizes_(s), embedding_({s.vocabulary, s.width}, 1), norm_(s.width), head_(s.vocabulary, s.width) {
        for (std::int64_t n = 0; n < s.layers; n++) blocks_.emplace_back(s);
    }

    // Probabilities of the next token behind each token, (T, vocabulary).
    ArrayOf<T> forward(attune::Context &context, const Packed &packed) { return run(context, packed, nullptr); }

    // The mean of -log of the probabilities of `next`, and its gradients.
    double learn(attune::Context &context, const Packed &packed, const std::vector<std::int32_t> &next) {
        Kept kept;
        ArrayOf<T> by_logits = run(context, packed, &kept);
        const double loss = mean_loss(by_logits, next);
        for (std::int64_t i = 0; i < packed.rows(); i++)
            by_logits.numbers[std::size_t(i * sizes_.vocabulary + next[std::size_t(i)])] -= 1;
        for (T &g : by_logits.numbers) g /= T(packed.rows());
        ArrayOf<T> by_x = norm_.backward(context, kept.x, head_.backward(context, kept.normed, by_logits));
        for (std::size_t n = blocks_.size(); n-- > 0;) by_x = blocks_[n].backward(context, packed, kept.blocks[n], by_x);
        for (std::int64_t i = 0; i < packed.rows(); i++)
            for (std::int64_t d = 0; d < sizes_.width; d++)
                embedding_.gradient.numbers[std::size_t(packed.tokens[std::size_t(i)] * sizes_.width + d)] +=
                    by_x.numbers[std::size_t(i * sizes_.width + d)];
        return loss;
    }
    double mean_loss(const ArrayOf<T> &probabilities, const std::vector<std::int32_t> &next) const {
        double loss = 0;
        for (std::size_t i = 0; i < next.size(); i++)
            loss -= std::log(double(probabilities.numbers[i * std::size_t(sizes_.vocabulary) + std::size_t(next[i])]));
        return loss / double(next.size());
    }
    void step(int count, T rate) {
        each_parameter([&](const char *, ParameterOf<T> &p) { p.step(count, rate); });
    }
    // Calls f(name, parameter) for each.
    template<typename F> void each_parameter(const F &f) {
        f("embedding", embedding_);
        for (Block<T> &b : blocks_) b.each_parameter(f);
        f("last norm", norm_.weight), f("head", head_.weight), f("head", head_.bias);
    }

private:
    struct Kept {
        std::vector<typename Block<T>::Kept> blocks;
        ArrayOf<T> x{{0}}, normed{{0}};
    };
    ArrayOf<T> run(attune::Context &context, const Packed &packed, Kept *kept) {
        ArrayOf<T> x({packed.rows(), sizes_.width});
        for (std::int64_t i = 0; i < packed.rows(); i++)
            std::copy_n(embedding_.value.numbers.begin() + packed.tokens[std::size_t(i)] * sizes_.width, sizes_.width,
                        x.numbers.begin() + i * sizes_.width);
        for (const Block<T> &b : blocks_) {
            const ArrayOf<T> before = x;
            typename Block<T>::Kept of_block;
            x = b.forward(context, packed, before, kept ? &of_block : nullptr);
            if (kept) kept->blocks.push_back(std::move(of_block));
        }
        const ArrayOf<T> normed = norm_.forward(context, x), logits = head_.forward(context, normed);
        if (kept) kept->x = x, kept->normed = normed;
        ArrayOf<T> probabilities(logits.shape);
        require(attune::masked_softmax(context, logits, probabilities));
        return probabilities;
    }

    Sizes sizes_;
    ParameterOf<T> embedding_;
    std::vector<Block<T>> blocks_;
    Norm<T> norm_;
    LayerOf<T> head_;
};

}  // namespace examples
