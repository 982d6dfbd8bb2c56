// SPDX-License-Identifier: MIT
// Sentence encoder: a BERT (Devlin et al., 2019) whose last rows are averaged over a sentence (Sentence-BERT, Reimers and
// Gurevych, 2019). A batch of sentences is packed, one after another: nothing is computed for padding.
#pragma once
#include "safetensors.h"
#include <array>
#include <attune/attune.h>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace sentence_encoder {

// Tokens of all sentences, and where each begins and ends: ends[s] to ends[s + 1].
struct Batch {
    std::vector<std::int32_t> tokens, ends = {0};
    std::int64_t sentences() const { return std::int64_t(ends.size()) - 1; }
    std::int64_t rows() const { return std::int64_t(tokens.size()); }
};

// Weight (N, K) of a linear layer, packed once, and its bias. `parts` of the file follow each other in N.
class Linear {
public:
    Linear(attune::Context &, const Safetensors &, const std::vector<std::string> &parts, std::int64_t inputs);
    std::int64_t outputs() const { return std::int64_t(bias_.size()); }
    void operator()(attune::Context &, const std::vector<float> &x, std::vector<float> &out) const;

private:
    struct Free {
        void operator()(float *p) const { std::free(p); }
    };
    std::int64_t inputs_;
    std::unique_ptr<float, Free> packed_;
    std::vector<float> bias_;
};

struct LayerNorm {
    const float *weight, *bias;
};

struct Layer {
    Linear query_key_value, out, up, down;
    LayerNorm after_attention, after_feed_forward;
};

class Encoder {
public:
    // `weights` must outlive the encoder. Throws std::runtime_error where they are not those of a BERT.
    Encoder(const Safetensors &weights, std::int64_t heads, int threads);

    std::int64_t width() const { return width_; }
    std::int64_t layers() const { return std::int64_t(layers_.size()); }
    // (sentences, width): an embedding of length 1 for each sentence. Throws std::runtime_error on tokens that are none.
    // If given, `rows_of_layer` (T, 3, heads, head size) gets the queries, keys and values of layer `layer`, from 1.
    std::vector<float> embed(const Batch &, std::int64_t layer = 0, std::vector<float> *rows_of_layer = nullptr);

private:
    void check(const Batch &) const;
    void first_rows(const Batch &, std::vector<float> &x) const;
    void add_and_norm(std::vector<float> &x, const std::vector<float> &more, const LayerNorm &) const;

    attune::Context context_;
    int threads_;
    std::int64_t heads_, width_ = 0;
    Tensor words_, positions_, types_;
    LayerNorm first_norm_{};
    std::vector<Layer> layers_;
    std::array<std::vector<float>, 5> rows_;  // of the activations: kept, so that a call allocates none after the largest batch
};

}  // namespace sentence_encoder
