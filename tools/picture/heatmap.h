// SPDX-License-Identifier: MIT
// A picture of attention weights: one panel a head and batch entry, as SVG.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace attune::program {

// More cells than this make a file that no viewer likes (about 100 bytes a cell); more panels, a picture that nobody reads.
inline constexpr std::int64_t max_heatmap_cells = 250000, max_heatmap_panels = 1024;

struct Heatmap {
    std::int64_t batch = 0, heads = 0, queries = 0, keys = 0;
    std::function<double(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j)> weight;
    // Keys of a query; cells from there on stay empty.
    std::function<std::int64_t(std::int64_t b, std::int64_t i)> length;
    // For each batch entry, or one for all of them; none: numbers.
    std::vector<std::vector<std::string>> query_labels, key_labels;
};

std::string svg_of(const Heatmap &);

}  // namespace attune::program
