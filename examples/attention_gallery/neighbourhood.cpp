// SPDX-License-Identifier: MIT
// Neighbourhood attention on a grid that is as square as its number of cells allows.
#include "gallery.h"
#include "neighbourhood_attention.h"
#include <algorithm>
#include <cmath>

namespace {
bool near(std::int64_t of, std::int64_t cell, std::int64_t extent, std::int64_t reach) {
    const std::int64_t first = std::clamp<std::int64_t>(of - reach, 0, extent - 2 * reach - 1);
    return cell >= first && cell <= first + 2 * reach;
}
}  // namespace

gallery::Entry gallery::neighbourhood() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return neighbourhood_attention::Options{
            .width = c.captures[0].integers[0], .reach = c.captures[1].integers[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"neighbourhood"};
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &c) {
        const auto width = std::int64_t(c[0]()), reach = std::int64_t(c[1]()), height = at.keys / width;
        return near(at.i / width, at.j / width, height, reach) && near(at.i % width, at.j % width, width, reach);
    };
    e.checked.queries = e.checked.keys;
    e.captures = [](const Sizes &s) {
        std::int64_t width = std::int64_t(std::sqrt(double(s.keys)));
        while (s.keys % width) width--;
        return std::vector{number(std::int32_t(width)), number(std::int32_t(std::min<std::int64_t>(3, width / 4)))};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return neighbourhood_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return neighbourhood_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                                 options(c, {}));
    };
    return e;
}
