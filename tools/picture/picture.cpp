// SPDX-License-Identifier: MIT
// Limits and labels of a picture, which heatmap.cpp draws.
#include "tools/picture/picture.h"
#include "tools/error.h"
#include "tools/text.h"

namespace attune::program {
namespace {

std::vector<std::vector<std::string>> labels_of(const char *argument, const std::vector<std::string> &paths, std::int64_t batch,
                                                std::int64_t rows) {
    std::vector<std::vector<std::string>> all;
    if (paths.size() > 1 && static_cast<std::int64_t>(paths.size()) != batch)
        throw InputError(argument, std::to_string(paths.size()) + " files for " + std::to_string(batch) + " batch entries");
    for (const std::string &path : paths) {
        all.push_back(read_labels(argument, path));
        if (const auto found = static_cast<std::int64_t>(all.back().size()); found < rows)
            throw InputError(argument,
                             path + ": has " + std::to_string(found) + " labels for " + std::to_string(rows) + " rows");
    }
    return all;
}

}  // namespace

Picture::Picture(const PictureArguments &given, CommandFiles &files) : given_(given), files_(files) {
    for (auto [argument, paths] : {std::pair("--labels-query", &given.labels_query), {"--labels-key", &given.labels_key}}) {
        if (!paths->empty() && !given.file) throw InputError(argument, "is only for --heatmap");
        for (const std::string &path : *paths) files.other_input(argument, path);
    }
}

void Picture::prepare(const Shape &shape, bool heads) {
    const std::size_t rank = shape.size();
    map_.queries = shape[rank - 2], map_.keys = shape[rank - 1];
    map_.heads = heads ? shape[rank - 3] : 1;
    const auto batch = elements_of({shape.begin(), shape.end() - (heads ? 3 : 2)});
    const auto panels = elements_of({shape.begin(), shape.end() - 2}), cells = elements_of(shape);
    if (!cells || *cells > max_heatmap_cells)
        throw InputError("--heatmap", "would have " + (cells ? std::to_string(*cells) : std::string("too many")) +
                                          " cells, at most " + std::to_string(max_heatmap_cells) + " can be drawn");
    if (!panels || !batch || *panels > max_heatmap_panels)
        throw InputError("--heatmap", "would have more than " + std::to_string(max_heatmap_panels) + " panels");
    map_.batch = *batch;
    map_.query_labels = labels_of("--labels-query", given_.labels_query, map_.batch, map_.queries);
    map_.key_labels = labels_of("--labels-key", given_.labels_key, map_.batch, map_.keys);
}

void Picture::draw(const Array &weights, std::function<std::int64_t(std::int64_t b, std::int64_t i)> length) {
    map_.weight = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
        const std::int64_t at = ((b * map_.heads + h) * map_.queries + i) * map_.keys + j;
        return float_at(weights, at);
    };
    map_.length = std::move(length);
    files_.write("--heatmap", svg_of(map_));
}

}  // namespace attune::program
