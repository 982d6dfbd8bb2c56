// SPDX-License-Identifier: MIT
// Prefix language model.
#include "gallery.h"
#include "prefix_lm_attention.h"

gallery::Entry gallery::prefix_lm() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return prefix_lm_attention::Options{.prefix = c.captures[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"prefix_lm"};
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &c) { return double(at.j) < c[0](at.b) || at.j <= at.position; };
    e.captures = [](const Sizes &s) {
        Array prefix{{s.batch}};
        for (std::int64_t b = 0; b < s.batch; b++) prefix.integers.push_back(std::int32_t((b + 1) * s.keys / 4));
        return std::vector{prefix};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return prefix_lm_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return prefix_lm_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                             options(c, {}));
    };
    return e;
}
