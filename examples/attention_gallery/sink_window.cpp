// SPDX-License-Identifier: MIT
// A causal window and the first tokens.
#include "gallery.h"
#include "sink_window_attention.h"

gallery::Entry gallery::sink_window() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return sink_window_attention::Options{
            .first = c.captures[0].integers[0], .window = c.captures[1].integers[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"sink_window"};
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &c) {
        const bool first = double(at.j) < c[0](), near = double(at.position - at.j) < c[1]();
        return at.j <= at.position && (first || near);
    };
    e.captures = [](const Sizes &s) { return std::vector{number(4), number(std::int32_t(s.keys / 4))}; };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return sink_window_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return sink_window_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                               options(c, {}));
    };
    return e;
}
