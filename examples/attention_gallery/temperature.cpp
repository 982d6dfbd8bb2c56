// SPDX-License-Identifier: MIT
// A learned temperature of each head.
#include "gallery.h"
#include "temperature_attention.h"
#include <cmath>

gallery::Entry gallery::temperature() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return temperature_attention::Options{.log_scale = c.captures[0], .sdpa = sdpa};
    };
    Entry e{"temperature"};
    e.score = [](double x, const Pair &at, const Captures &c) { return x * std::exp(c[0](at.h)); };
    e.captures = [](const Sizes &s) {
        Array log_scale = floats({s.heads});
        for (std::int64_t h = 0; h < s.heads; h++) log_scale.floats[std::size_t(h)] = 1 - 2 * float(h % 2);
        return std::vector{log_scale};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return temperature_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return temperature_attention::backward(c.context, c.query, c.key, c.value, c.forward(),
                                               {.sdpa = c.gradients(), .log_scale = c.grad_captures[0]}, options(c, {}));
    };
    e.pictures_scores = true;
    e.pictured_heads = 2;
    return e;
}
