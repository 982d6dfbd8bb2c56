// SPDX-License-Identifier: MIT
// The forward pass of a Llama model: tokens of several requests in, logits out, keys and values into the pages of a cache.
#pragma once
#include "cache.h"
#include "weights.h"
#include <map>
#include <utility>

namespace language_model {

struct ModelSizes {
    std::int64_t layers, width, heads, key_heads, head_dim, hidden, vocabulary;
    std::int64_t positions;  // the longest context that the model was trained for
    double rope_base;
    float norm_eps;
};

// Rows of one forward pass: the new tokens of each sequence, one sequence after another.
struct Batch {
    std::vector<std::int32_t> tokens, positions;   // of each row
    std::vector<std::int64_t> slots;               // the row of the pool that takes the key and value of each row
    std::vector<std::int32_t> ends = {0};          // sequence b has rows [ends[b], ends[b + 1])
    std::vector<std::int32_t> lens;                // rows that each sequence holds afterwards
    std::vector<std::vector<std::int32_t>> pages;  // of each sequence
    std::vector<std::int32_t> wanted;              // rows whose logits are computed

    // Appends tokens of a sequence that holds `held` rows in `pages`, which have room for them.
    void add(std::span<const std::int32_t> tokens, std::int64_t held, const std::vector<std::int32_t> &pages,
             std::int64_t page);
};

// Queries and keys of one layer, after RoPE, as f32 (rows, heads, head_dim): what attention weights are made of.
struct Observer {
    std::int64_t layer = 0;
    std::vector<float> queries, keys;
};

struct ForwardOptions {
    std::int64_t window = 0;  // a token sees so many, itself among them; 0: all before it
    bool invariant = false;   // the same bits however a prompt is cut into chunks
    Observer *observer = nullptr;
};

class Model {
public:
    // Packs the weights, so that the file is read once. Their type is the model's: f32 or bf16.
    Model(attune::Context &, const Weights &);
    const ModelSizes &sizes() const { return sizes_; }
    attune::DType type() const { return type_; }

    // logits (batch.wanted, vocabulary). What attention over a window or a cache of this type lacks, the library says.
    void forward(const Batch &, const PagePool &, const ForwardOptions &, std::vector<float> &logits);

    // Calls by function and variant.
    const std::map<std::pair<std::string, std::string>, std::int64_t> &variants() const { return variants_; }

private:
    // A linear layer, packed. Layers that read the same rows are one, their columns side by side.
    struct Linear {
        Array weight;
        std::int64_t columns = 0;
    };
    struct Block {
        std::vector<float> attention_norm, feed_forward_norm;
        Linear query_key_value, attention_out, gate_up, down;
    };
    Linear packed(std::initializer_list<attune::ConstView> weights);
    std::vector<float> norm_weight(const std::string &name) const;
    void linear(const attune::ConstView &x, const Linear &, const attune::View &out);
    void attend(const Batch &, std::int64_t layer, const PagePool &, const ForwardOptions &);
    void observe(const Batch &, const attune::RowSteps &, Observer &);
    void note(const char *function);

    attune::Context &context_;
    const Weights &weights_;
    ModelSizes sizes_;
    attune::DType type_;
    std::vector<Block> blocks_;
    std::vector<float> last_norm_;
    attune::ConstView embedding_;
    Linear logits_;
    Array cos_, sin_;
    std::map<std::pair<std::string, std::string>, std::int64_t> variants_;

    // Rows of the pass.
    std::vector<float> residual_, wanted_;
    std::vector<std::int32_t> block_table_;
    Array normed_, projected_, attended_, gate_up_, hidden_, change_, logit_rows_;
};

}  // namespace language_model
