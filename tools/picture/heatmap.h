// SPDX-License-Identifier: MIT
// Picture of attention weights as SVG: one panel per head and batch entry.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attune::program {

// Limits: more cells make a file too large for viewers (about 100 bytes a cell); more panels, a picture that nobody reads.
inline constexpr std::int64_t max_heatmap_cells = 250000, max_heatmap_panels = 1024;

struct Heatmap {
    std::int64_t batch = 0, heads = 0, queries = 0, keys = 0;
    std::function<double(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j)> weight;
    // Number of keys of a query; cells from there on stay empty.
    std::function<std::int64_t(std::int64_t b, std::int64_t i)> length;
    // Labels of each batch entry, or one list for all; none: numbers.
    std::vector<std::vector<std::string>> query_labels, key_labels;
};

std::string svg_of(const Heatmap &);

}  // namespace attune::program
