// SPDX-License-Identifier: MIT
// The model over a text that is there: its logits, its perplexity, the queries and keys of a layer.
#pragma once
#include "engine.h"
#include <string>

namespace language_model {

// Reads the text in chunks, into an empty cache, and calls `rows` with the number of the first token of each chunk and the
// logits of all of its tokens.
void read_text(Model &, const PagePool &, const EngineOptions &, std::span<const std::int32_t> tokens,
               const std::function<void(std::int64_t first, std::span<const float> logits)> &rows);

// The logits of every token, (tokens, vocabulary), to an .npy file.
void write_logits(Model &, const PagePool &, const EngineOptions &, std::span<const std::int32_t> tokens,
                  const std::string &path);
// The sum of -log(probability) of each token but the first, given those before it. exp(sum / number) is the perplexity.
double surprise(Model &, const PagePool &, const EngineOptions &, std::span<const std::int32_t> tokens);
// Queries (1, heads, tokens, head_dim) and keys (1, key_heads, tokens, head_dim) of a layer, for `attune run sdpa`, to
// <prefix>query.npy and <prefix>key.npy.
void write_queries_and_keys(Model &, const PagePool &, const EngineOptions &, std::span<const std::int32_t> tokens,
                            std::int64_t layer, const std::string &prefix);

}  // namespace language_model
