// SPDX-License-Identifier: MIT
// A picture of attention weights (B, Sq, Sk), as the attune program draws it.
#pragma once
#include "../tools/picture/heatmap.h"
#include "show.h"
#include <fstream>

namespace examples {

struct Labels {
    std::vector<std::string> queries = {}, keys = {};  // words; empty: numbers
    std::vector<std::int32_t> valid_lens = {};         // one for each batch entry; later keys are hatched
};

inline void draw(const char *path, const Array &weights, const Labels &labels) {
    const std::int64_t queries = weights.shape[1], keys = weights.shape[2];
    attune::program::Heatmap map;
    map.batch = weights.shape[0], map.heads = 1, map.queries = queries, map.keys = keys;
    map.weight = [&](std::int64_t b, std::int64_t, std::int64_t i, std::int64_t j) {
        return double(weights.numbers[std::size_t((b * queries + i) * keys + j)]);
    };
    map.length = [&](std::int64_t b, std::int64_t) {
        return labels.valid_lens.empty() ? keys : std::int64_t(labels.valid_lens[std::size_t(b)]);
    };
    if (!labels.queries.empty()) map.query_labels = {labels.queries};
    if (!labels.keys.empty()) map.key_labels = {labels.keys};
    std::ofstream file(path);
    if (!(file << attune::program::svg_of(map)).flush()) std::printf("  %s: cannot be written\n", path), std::exit(1);
    std::printf("  picture of the weights: %s\n", path);
}

}  // namespace examples
