// SPDX-License-Identifier: MIT
#include "encoder.h"
#include "rows.h"
#include <algorithm>
#include <iterator>
#include <new>
#include <span>
#include <stdexcept>

namespace sentence_encoder {
namespace {

void require(const attune::Status &status) {
    if (!status.ok()) throw std::runtime_error(status.message());
}

LayerNorm norm_of(const Safetensors &weights, const std::string &name, std::int64_t width) {
    return {weights.tensor(name + ".weight", Shape{width}).data, weights.tensor(name + ".bias", Shape{width}).data};
}

Layer layer_of(attune::Context &context, const Safetensors &w, const std::string &name, std::int64_t width) {
    const std::string self = name + ".attention.self.", out = name + ".attention.output";
    Linear up(context, w, {name + ".intermediate.dense"}, width);
    Linear down(context, w, {name + ".output.dense"}, up.outputs());
    return {Linear(context, w, {self + "query", self + "key", self + "value"}, width),
            Linear(context, w, {out + ".dense"}, width),
            std::move(up),
            std::move(down),
            norm_of(w, out + ".LayerNorm", width),
            norm_of(w, name + ".output.LayerNorm", width)};
}

}  // namespace

Linear::Linear(attune::Context &context, const Safetensors &weights, const std::vector<std::string> &parts, std::int64_t inputs)
    : inputs_(inputs) {
    std::vector<float> all;
    for (const std::string &part : parts) {
        const Tensor weight = weights.tensor(part + ".weight", 2);
        const std::int64_t outputs = weight.shape[0];
        if (weight.shape[1] != inputs) throw std::runtime_error(part + ".weight does not take " + std::to_string(inputs));
        const Tensor bias = weights.tensor(part + ".bias", Shape{outputs});
        all.insert(all.end(), weight.data, weight.data + outputs * inputs);
        bias_.insert(bias_.end(), bias.data, bias.data + outputs);
    }
    const auto extents = attune::packed_weight_extents(attune::DType::f32, outputs(), inputs);
    constexpr std::size_t cache_line = 64;  // bytes; the size of a packed panel is a multiple
    packed_.reset(static_cast<float *>(
        std::aligned_alloc(cache_line, std::size_t(extents[0] * extents[1] * extents[2]) * sizeof(float))));
    if (!packed_) throw std::bad_alloc();
    require(attune::pack_linear_weight(context, {all, {outputs(), inputs}}, {packed_.get(), extents}));
}

void Linear::operator()(attune::Context &context, const std::vector<float> &x, std::vector<float> &out) const {
    const std::int64_t rows = std::int64_t(x.size()) / inputs_;
    out.resize(std::size_t(rows * outputs()));
    const auto extents = attune::packed_weight_extents(attune::DType::f32, outputs(), inputs_);
    require(attune::linear(context, {x, {rows, inputs_}}, {packed_.get(), extents}, bias_, {out, {rows, outputs()}}));
}

Encoder::Encoder(const Safetensors &weights, std::int64_t heads, int threads)
    : context_({.threads = threads}), threads_(threads), heads_(heads) {
    require(context_.status());
    words_ = weights.tensor("embeddings.word_embeddings.weight", 2);
    width_ = words_.shape[1];
    if (heads < 1 || width_ % heads != 0)
        throw std::runtime_error(std::to_string(heads) + " heads do not divide the width, " + std::to_string(width_));
    positions_ = weights.tensor("embeddings.position_embeddings.weight", 2);
    types_ = weights.tensor("embeddings.token_type_embeddings.weight", 2);
    if (positions_.shape[1] != width_ || types_.shape[1] != width_)
        throw std::runtime_error("embeddings of words, positions and types have different widths");
    first_norm_ = norm_of(weights, "embeddings.LayerNorm", width_);
    const auto name = [](std::size_t n) { return "encoder.layer." + std::to_string(n); };
    while (weights.has(name(layers_.size()) + ".attention.self.query.weight"))
        layers_.push_back(layer_of(context_, weights, name(layers_.size()), width_));
    for (const Layer &layer : layers_)
        if (layer.query_key_value.outputs() != 3 * width_ || layer.out.outputs() != width_ || layer.down.outputs() != width_)
            throw std::runtime_error("a layer does not have the width of the embeddings");
}

void Encoder::check(const Batch &batch) const {
    for (std::int64_t s = 0; s < batch.sentences(); s++) {
        const std::int64_t length = batch.ends[std::size_t(s) + 1] - batch.ends[std::size_t(s)];
        if (length >= 1 && length <= positions_.shape[0]) continue;
        throw std::runtime_error("sentence " + std::to_string(s + 1) + " has " + std::to_string(length) +
                                 " tokens, must have from 1 to " + std::to_string(positions_.shape[0]));
    }
    for (std::int32_t token : batch.tokens)
        if (token < 0 || token >= words_.shape[0])
            throw std::runtime_error("token " + std::to_string(token) + " is not one of the " +
                                     std::to_string(words_.shape[0]) + " of the vocabulary");
}

// Embeddings of word, position within the sentence, and type 0, normalised.
void Encoder::first_rows(const Batch &batch, std::vector<float> &x) const {
    x.resize(std::size_t(batch.rows() * width_));
    for_rows(threads_, batch.rows(), [&](std::int64_t begin, std::int64_t end) {
        auto next = std::upper_bound(batch.ends.begin(), batch.ends.end(), begin);  // end of the sentence of a row
        for (std::int64_t i = begin; i < end; i++) {
            while (*next <= i) next++;
            float *row = x.data() + i * width_;
            const float *word = words_.data + batch.tokens[std::size_t(i)] * width_,
                        *position = positions_.data + (i - *std::prev(next)) * width_;
            for (std::int64_t d = 0; d < width_; d++) row[d] = word[d] + types_.data[d] + position[d];
            layer_norm(row, width_, first_norm_.weight, first_norm_.bias);
        }
    });
}

void Encoder::add_and_norm(std::vector<float> &x, const std::vector<float> &more, const LayerNorm &norm) const {
    for_rows(threads_, std::int64_t(x.size()) / width_, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t n = begin * width_; n < end * width_; n++) x[std::size_t(n)] += more[std::size_t(n)];
        for (std::int64_t i = begin; i < end; i++) layer_norm(x.data() + i * width_, width_, norm.weight, norm.bias);
    });
}

std::vector<float> Encoder::embed(const Batch &batch, std::int64_t layer, std::vector<float> *rows_of_layer) {
    check(batch);
    const std::int64_t rows = batch.rows(), head_dim = width_ / heads_;
    std::vector<float> &x = rows_[0], &qkv = rows_[1], &attended = rows_[2], &more = rows_[3], &hidden = rows_[4];
    first_rows(batch, x);
    attended.resize(x.size());
    for (const Layer &l : layers_) {
        l.query_key_value(context_, x, qkv);
        if (rows_of_layer && layer == &l - layers_.data() + 1) *rows_of_layer = qkv;
        // Heads are slices of the rows (T, 3, heads, head size): no copy splits or merges them.
        const auto part = [&](std::int64_t n) {
            return attune::ConstView(std::span<const float>(qkv).subspan(std::size_t(n * width_)), {rows, heads_, head_dim},
                                     {3 * width_, head_dim, 1});
        };
        require(attune::variable_length_attention(context_, part(0), part(1), part(2), batch.ends, batch.ends,
                                                  {attended, {rows, heads_, head_dim}}));
        l.out(context_, attended, more);
        add_and_norm(x, more, l.after_attention);
        l.up(context_, x, hidden);
        for_rows(threads_, rows, [&](std::int64_t begin, std::int64_t end) {
            gelu(hidden.data() + begin * l.up.outputs(), (end - begin) * l.up.outputs());
        });
        l.down(context_, hidden, more);
        add_and_norm(x, more, l.after_feed_forward);
    }
    std::vector<float> embeddings(std::size_t(batch.sentences() * width_));
    for (std::int64_t s = 0; s < batch.sentences(); s++) {
        const std::int64_t first = batch.ends[std::size_t(s)], count = batch.ends[std::size_t(s) + 1] - first;
        mean_of_unit_length(x.data() + first * width_, count, width_, embeddings.data() + s * width_);
    }
    return embeddings;
}

}  // namespace sentence_encoder
