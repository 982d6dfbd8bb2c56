// SPDX-License-Identifier: MIT
#include "shapes_file.h"
#include "tools/error.h"
#include <filesystem>

namespace attune::tune {

std::vector<WeightedShape> read_weighted_shapes(const std::string &file) {
    if (!std::filesystem::is_regular_file(file)) throw program::InputError(file, "there is no such file of shapes");
    std::string error;
    std::vector<WeightedShape> shapes;
    double seconds = 0;
    for (const bench::Shape &shape : bench::read_shapes(file, "*", error)) {
        shapes.push_back({shape, shape.seconds});
        seconds += shape.seconds;
    }
    if (!error.empty()) throw program::InputError("--shapes", error);
    for (WeightedShape &s : shapes) s.weight = seconds > 0 ? s.weight / seconds : 1;
    // Shapes without measurable time decide nothing.
    std::erase_if(shapes, [](const WeightedShape &s) { return s.weight <= 0; });
    return shapes;
}

nlohmann::json json_of(const bench::Shape &shape) {
    nlohmann::json json;
    for (const auto &[column, text] : bench::columns_of(shape)) json[column] = text;
    return json;
}

}  // namespace attune::tune
