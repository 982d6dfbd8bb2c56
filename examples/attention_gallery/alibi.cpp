// SPDX-License-Identifier: MIT
// ALiBi, causal, with learned slopes.
#include "alibi_attention.h"
#include "gallery.h"
#include <cmath>

gallery::Entry gallery::alibi() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return alibi_attention::Options{.slopes = c.captures[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"alibi"};
    e.score = [](double x, const Pair &at, const Captures &c) { return x - c[0](at.h) * double(std::abs(at.position - at.j)); };
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &) { return at.j <= at.position; };
    e.captures = [](const Sizes &s) {
        Array slopes = floats({s.heads});
        for (std::int64_t h = 0; h < s.heads; h++) slopes.floats[std::size_t(h)] = 0.25f / float(h + 1);
        return std::vector{slopes};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return alibi_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return alibi_attention::backward(c.context, c.query, c.key, c.value, c.forward(),
                                         {.sdpa = c.gradients(), .slopes = c.grad_captures[0]}, options(c, {}));
    };
    e.pictured_heads = 2;
    return e;
}
