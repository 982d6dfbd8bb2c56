// SPDX-License-Identifier: MIT
// The picture of a command's weights: options, labels, limits.
#pragma once
#include "tools/files/command_files.h"
#include "tools/picture/heatmap.h"

namespace attune::program {

class Picture {
public:
    Picture(const PictureArguments &, CommandFiles &);

    bool wanted() const { return given_.file.has_value(); }
    // Sets the shape, (batch..., [heads,] queries, keys), and whether it has heads. Reads the labels, and refuses a picture
    // that is too large, before anything is computed.
    void prepare(const Shape &, bool heads);
    // Draws the picture. Cells of a row from `length` on stay empty.
    void draw(const Array &weights, std::function<std::int64_t(std::int64_t b, std::int64_t i)> length);

private:
    const PictureArguments &given_;
    CommandFiles &files_;
    Heatmap map_;
};

}  // namespace attune::program
