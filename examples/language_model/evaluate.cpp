// SPDX-License-Identifier: MIT
#include "evaluate.h"
#include "arithmetic.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <numeric>

namespace language_model {
namespace {

// A file of NumPy's format .npy, of f32, written from its first element to its last.
class NpyFile {
public:
    NpyFile(const std::string &path, const std::vector<std::int64_t> &shape) : path_(path), file_(path, std::ios::binary) {
        std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
        for (const std::int64_t extent : shape) header += std::to_string(extent) + ", ";
        header += "), }";
        header.resize((header.size() + 10 + 1 + 63) / 64 * 64 - 11, ' ');
        header += '\n';
        const auto length = std::uint16_t(header.size());
        file_.write("\x93NUMPY\x01\x00", 8);
        file_.write(reinterpret_cast<const char *>(&length), 2);
        file_ << header;
    }
    void write(std::span<const float> numbers) {
        file_.write(reinterpret_cast<const char *>(numbers.data()), std::streamsize(numbers.size_bytes()));
    }
    void close() {
        file_.close();
        if (!file_) throw Failure(path_ + " cannot be written");
    }

private:
    std::string path_;
    std::ofstream file_;
};

// (tokens, heads, head_dim) as (1, heads, tokens, head_dim).
void write_heads(const std::string &path, const std::vector<float> &rows, std::int64_t heads, std::int64_t head_dim) {
    const std::int64_t tokens = std::int64_t(rows.size()) / (heads * head_dim);
    NpyFile file(path, {1, heads, tokens, head_dim});
    for (std::int64_t head = 0; head < heads; head++)
        for (std::int64_t token = 0; token < tokens; token++)
            file.write({rows.data() + (token * heads + head) * head_dim, std::size_t(head_dim)});
    file.close();
}

}  // namespace

void read_text(Model &model, const PagePool &pool, const EngineOptions &options, std::span<const std::int32_t> tokens,
               const std::function<void(std::int64_t, std::span<const float>)> &rows) {
    const std::int64_t count = std::int64_t(tokens.size()), page = pool.sizes().page;
    if (count > model.sizes().positions || count > page * pool.sizes().pages)
        throw Failure("the text has " + std::to_string(count) + " tokens; the model takes " +
                      std::to_string(model.sizes().positions) + ", the cache " + std::to_string(page * pool.sizes().pages));
    for (const std::int32_t token : tokens)
        if (token < 0 || token >= model.sizes().vocabulary) throw Failure("the model has no token " + std::to_string(token));
    std::vector<std::int32_t> pages(std::size_t((count + page - 1) / page));
    std::iota(pages.begin(), pages.end(), 0);
    std::vector<float> logits;
    for (std::int64_t first = 0; first < count; first += options.chunk) {
        const std::int64_t chunk = std::min(options.chunk, count - first);
        Batch batch;
        batch.add(tokens.subspan(std::size_t(first), std::size_t(chunk)), first, pages, page);
        batch.wanted.resize(std::size_t(chunk));
        std::iota(batch.wanted.begin(), batch.wanted.end(), 0);
        model.forward(batch, pool, options.forward, logits);
        rows(first, logits);
    }
}

void write_logits(Model &model, const PagePool &pool, const EngineOptions &options, std::span<const std::int32_t> tokens,
                  const std::string &path) {
    NpyFile file(path, {std::int64_t(tokens.size()), model.sizes().vocabulary});
    read_text(model, pool, options, tokens, [&](std::int64_t, std::span<const float> logits) { file.write(logits); });
    file.close();
}

double surprise(Model &model, const PagePool &pool, const EngineOptions &options, std::span<const std::int32_t> tokens) {
    const std::int64_t vocabulary = model.sizes().vocabulary;
    double sum = 0;
    read_text(model, pool, options, tokens, [&](std::int64_t first, std::span<const float> logits) {
        for (std::size_t n = 0; n * std::size_t(vocabulary) < logits.size(); n++) {
            if (std::size_t(first) + n + 1 == tokens.size()) break;  // nothing follows the last token
            const float *row = logits.data() + n * std::size_t(vocabulary);
            sum += log_sum_exp(row, vocabulary) - double(row[tokens[std::size_t(first) + n + 1]]);
        }
    });
    return sum;
}

void write_queries_and_keys(Model &model, const PagePool &pool, const EngineOptions &options,
                            std::span<const std::int32_t> tokens, std::int64_t layer, const std::string &prefix) {
    if (layer < 0 || layer >= model.sizes().layers)
        throw Failure("layers are 0 to " + std::to_string(model.sizes().layers - 1) + ", got " + std::to_string(layer));
    Observer observer;
    observer.layer = layer;
    EngineOptions observed = options;
    observed.forward.observer = &observer;
    read_text(model, pool, observed, tokens, [](std::int64_t, std::span<const float>) {});
    const ModelSizes &s = model.sizes();
    write_heads(prefix + "query.npy", observer.queries, s.heads, s.head_dim);
    write_heads(prefix + "key.npy", observer.keys, s.key_heads, s.head_dim);
}

}  // namespace language_model
