// SPDX-License-Identifier: MIT
// Products and attention are calls of attune; the rest is in arithmetic.h.
#include "model.h"
#include "arithmetic.h"
#include <algorithm>
#include <cstring>

namespace language_model {

using attune::ConstView, attune::DType, attune::View;

void Batch::add(std::span<const std::int32_t> new_tokens, std::int64_t held, const std::vector<std::int32_t> &its_pages,
                std::int64_t page) {
    for (const std::int32_t token : new_tokens) {
        tokens.push_back(token);
        positions.push_back(std::int32_t(held));
        slots.push_back(its_pages[std::size_t(held / page)] * page + held % page);
        held++;
    }
    ends.push_back(std::int32_t(tokens.size()));
    lens.push_back(std::int32_t(held));
    pages.push_back(its_pages);
}

Model::Model(attune::Context &context, const Weights &weights) : context_(context), weights_(weights) {
    const auto size = [&](const char *key) {
        const double number = weights.number(key);
        if (!(number >= 1 && number <= 1e9)) throw Failure(std::string("the file's ") + key + " is not a size");
        return std::int64_t(number);
    };
    embedding_ = weights.tensor("model.embed_tokens.weight");
    type_ = embedding_.dtype;
    sizes_ = {.layers = size("layers"),
              .width = size("width"),
              .heads = size("heads"),
              .key_heads = size("key_heads"),
              .head_dim = size("head_dim"),
              .hidden = size("hidden"),
              .vocabulary = embedding_.extent[0],
              .positions = size("positions"),
              .rope_base = weights.number("rope_base"),
              .norm_eps = float(weights.number("norm_eps"))};

    blocks_.resize(std::size_t(sizes_.layers));
    for (std::int64_t n = 0; n < sizes_.layers; n++) {
        const std::string layer = "model.layers." + std::to_string(n) + ".";
        const auto weight = [&](const char *name) { return weights.tensor(layer + name + ".weight"); };
        Block &block = blocks_[std::size_t(n)];
        block.attention_norm = norm_weight(layer + "input_layernorm.weight");
        block.feed_forward_norm = norm_weight(layer + "post_attention_layernorm.weight");
        block.query_key_value = packed({weight("self_attn.q_proj"), weight("self_attn.k_proj"), weight("self_attn.v_proj")});
        block.attention_out = packed({weight("self_attn.o_proj")});
        block.gate_up = packed({weight("mlp.gate_proj"), weight("mlp.up_proj")});
        block.down = packed({weight("mlp.down_proj")});
        if (block.query_key_value.columns != (sizes_.heads + 2 * sizes_.key_heads) * sizes_.head_dim ||
            block.gate_up.columns != 2 * sizes_.hidden)
            throw Failure("the weights of layer " + std::to_string(n) + " do not have the sizes that the metadata says");
    }
    last_norm_ = norm_weight("model.norm.weight");
    logits_ = packed({weights.has("lm_head.weight") ? weights.tensor("lm_head.weight") : embedding_});

    cos_.resize(DType::f32, {sizes_.positions, sizes_.head_dim / 2});
    sin_.resize(DType::f32, {sizes_.positions, sizes_.head_dim / 2});
    require(attune::rope_tables(context, sizes_.rope_base, 1, cos_.view(), sin_.view()));
}

std::vector<float> Model::norm_weight(const std::string &name) const {
    const ConstView weight = weights_.tensor(name);
    if (weight.rank != 1 || weight.extent[0] != sizes_.width) throw Failure("tensor " + name + " is not as wide as the model");
    std::vector<float> out(std::size_t(sizes_.width));
    ConstView row = weight;
    row.rank = 2, row.extent[1] = row.extent[0], row.extent[0] = 1, row.stride[0] = row.extent[1], row.stride[1] = 1;
    widen(row, out.data());
    return out;
}

Model::Linear Model::packed(std::initializer_list<ConstView> weights) {
    // Rows of all weights one below the other, for layers whose sizes are no multiple of a panel.
    std::int64_t columns = 0;
    const std::int64_t depth = weights.begin()->extent[1];
    for (const ConstView &weight : weights) {
        if (weight.rank != 2 || weight.extent[1] != depth || weight.dtype != type_)
            throw Failure("weights of a layer differ in their type or width");
        columns += weight.extent[0];
    }
    Array joined;
    ConstView source = *weights.begin();
    if (weights.size() > 1) {
        joined.resize(type_, {columns, depth});
        char *to = joined.as<char>();
        for (const ConstView &weight : weights) {
            const std::size_t bytes = std::size_t(weight.extent[0] * depth * attune::size_of(type_));
            std::memcpy(to, weight.data, bytes);
            to += bytes;
        }
        source = joined.view();
    }
    Linear layer;
    layer.columns = columns;
    layer.weight.resize(type_, attune::packed_weight_extents(type_, columns, depth));
    require(attune::pack_linear_weight(context_, source, layer.weight.view()));
    return layer;
}

void Model::note(const char *function) { variants_[{function, context_.last_variant()}]++; }

void Model::linear(const ConstView &x, const Linear &layer, const View &out) {
    require(attune::linear(context_, x, layer.weight.view(), {}, out));
    note("linear");
}

// Keys and values of the new rows go into their pages, and the queries attend to the rows that their sequences hold.
void Model::attend(const Batch &batch, std::int64_t layer, const PagePool &pool, const ForwardOptions &options) {
    const ModelSizes &s = sizes_;
    const std::int64_t rows = std::int64_t(batch.tokens.size()), columns = (s.heads + 2 * s.key_heads) * s.head_dim;
    const auto heads_at = [&](std::int64_t first, std::int64_t heads) {
        return projected_.view_at(first * s.head_dim, {rows, heads, s.head_dim}, {columns, s.head_dim, 1});
    };
    const View query = heads_at(0, s.heads), key = heads_at(s.heads, s.key_heads);
    const View value = heads_at(s.heads + s.key_heads, s.key_heads);

    // README: attention
    const attune::RowSteps steps = {.rope = {.cos = cos_.view(), .sin = sin_.view()}, .hadamard = pool.rotated()};
    require(attune::paged_append(context_, key, value, batch.slots, pool.keys(layer), pool.values(layer),
                                 {.key_steps = steps, .positions = batch.positions, .rotate_values = pool.rotated()}));
    note("paged_append");
    require(attune::transform_rows(context_, query, batch.positions, query, steps));
    note("transform_rows");

    attune::PagedOptions attention;
    if (options.window > 0) attention.window.left = options.window - 1;
    attention.invariant = options.invariant;
    const std::int64_t sequences = std::int64_t(batch.lens.size());
    const ConstView table(block_table_, {sequences, std::int64_t(block_table_.size()) / sequences});
    attended_.resize(type_, {rows, s.heads, s.head_dim});
    require(attune::paged_attention(context_, query, pool.keys(layer), pool.values(layer), batch.ends, table, batch.lens,
                                    attended_.view(), attention));
    note("paged_attention");
    if (pool.rotated())  // the rotation is its own inverse
        require(attune::transform_rows(context_, attended_.view(), {}, attended_.view(), {.hadamard = true}));
    // README: end
    if (options.observer && options.observer->layer == layer) observe(batch, steps, *options.observer);
}

void Model::observe(const Batch &batch, const attune::RowSteps &steps, Observer &observer) {
    const ModelSizes &s = sizes_;
    const std::int64_t rows = std::int64_t(batch.tokens.size()), columns = (s.heads + 2 * s.key_heads) * s.head_dim;
    const View key = projected_.view_at(s.heads * s.head_dim, {rows, s.key_heads, s.head_dim}, {columns, s.head_dim, 1});
    require(attune::transform_rows(context_, key, batch.positions, key, steps));
    for (std::int64_t row = 0; row < rows; row++)
        for (const bool keys : {false, true}) {
            const std::int64_t width = (keys ? s.key_heads : s.heads) * s.head_dim;
            std::vector<float> &to = keys ? observer.keys : observer.queries;
            to.resize(to.size() + std::size_t(width));
            widen(projected_.view_at(row * columns + (keys ? s.heads * s.head_dim : 0), {1, width}, {}), &*to.end() - width);
        }
}

void Model::forward(const Batch &batch, const PagePool &pool, const ForwardOptions &options, std::vector<float> &logits) {
    const ModelSizes &s = sizes_;
    const std::int64_t rows = std::int64_t(batch.tokens.size());
    const std::size_t width = std::size_t(s.width);

    std::size_t most = 0;
    for (const auto &pages : batch.pages) most = std::max(most, pages.size());
    block_table_.assign(most * batch.pages.size(), 0);
    for (std::size_t b = 0; b < batch.pages.size(); b++)
        std::copy(batch.pages[b].begin(), batch.pages[b].end(), block_table_.begin() + std::ptrdiff_t(b * most));

    residual_.resize(std::size_t(rows) * width);
    for (std::int64_t row = 0; row < rows; row++)
        embed(embedding_, batch.tokens[std::size_t(row)], residual_.data() + std::size_t(row) * width);

    normed_.resize(type_, {rows, s.width});
    projected_.resize(type_, {rows, (s.heads + 2 * s.key_heads) * s.head_dim});
    gate_up_.resize(type_, {rows, 2 * s.hidden});
    hidden_.resize(type_, {rows, s.hidden});
    change_.resize(type_, {rows, s.width});
    for (std::int64_t layer = 0; layer < s.layers; layer++) {
        const Block &block = blocks_[std::size_t(layer)];
        rms_norm(residual_.data(), block.attention_norm.data(), s.norm_eps, normed_.view());
        linear(normed_.view(), block.query_key_value, projected_.view());
        attend(batch, layer, pool, options);
        linear(attended_.view_at(0, {rows, s.heads * s.head_dim}, {}), block.attention_out, change_.view());
        add(change_.view(), residual_.data());

        rms_norm(residual_.data(), block.feed_forward_norm.data(), s.norm_eps, normed_.view());
        linear(normed_.view(), block.gate_up, gate_up_.view());
        swiglu(gate_up_.view(), hidden_.view());
        linear(hidden_.view(), block.down, change_.view());
        add(change_.view(), residual_.data());
    }

    const std::int64_t wanted = std::int64_t(batch.wanted.size());
    logits.resize(std::size_t(wanted * s.vocabulary));
    if (wanted == 0) return;
    wanted_.resize(std::size_t(wanted) * width);
    for (std::size_t n = 0; n < batch.wanted.size(); n++)
        std::copy_n(residual_.data() + std::size_t(batch.wanted[n]) * width, width, wanted_.data() + n * width);
    normed_.resize(type_, {wanted, s.width});
    logit_rows_.resize(type_, {wanted, s.vocabulary});
    rms_norm(wanted_.data(), last_norm_.data(), s.norm_eps, normed_.view());
    linear(normed_.view(), logits_, logit_rows_.view());
    widen(logit_rows_.view(), logits.data());
}

}  // namespace language_model
