// SPDX-License-Identifier: MIT
// Attention within blocks.
#include "block_diagonal_attention.h"
#include "gallery.h"

gallery::Entry gallery::block_diagonal() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return block_diagonal_attention::Options{.block = c.captures[0].integers[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"block_diagonal"};
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &c) {
        const auto block = std::int64_t(c[0]());
        return at.i / block == at.j / block;
    };
    e.checked.queries = e.checked.keys;
    e.captures = [](const Sizes &s) { return std::vector{number(std::int32_t(s.keys / 8))}; };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return block_diagonal_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return block_diagonal_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                                  options(c, {}));
    };
    e.more_timings = {{"", {1, 8, 8, 4096, 4096}, e.captures}};
    return e;
}
