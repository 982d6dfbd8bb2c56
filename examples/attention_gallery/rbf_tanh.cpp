// SPDX-License-Identifier: MIT
// A score of an exponential and a tanh.
#include "gallery.h"
#include "rbf_tanh_attention.h"
#include <cmath>

gallery::Entry gallery::rbf_tanh() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return rbf_tanh_attention::Options{.gain = c.captures[0], .rate = c.captures[1], .sdpa = sdpa};
    };
    Entry e{"rbf_tanh"};
    e.score = [](double x, const Pair &at, const Captures &c) {
        return c[0](at.h) * std::tanh(std::exp(c[1](at.h) * (x - 1)));
    };
    e.captures = [](const Sizes &s) {
        Array gain = floats({s.heads}), rate = gain;
        for (std::int64_t h = 0; h < s.heads; h++)
            gain.floats[std::size_t(h)] = 2 + float(h) / 4, rate.floats[std::size_t(h)] = 1 / float(h + 1);
        return std::vector{gain, rate};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return rbf_tanh_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return rbf_tanh_attention::backward(c.context, c.query, c.key, c.value, c.forward(),
                                            {.sdpa = c.gradients(), .gain = c.grad_captures[0], .rate = c.grad_captures[1]},
                                            options(c, {}));
    };
    e.pictures_scores = true;
    e.pictured_heads = 2;
    return e;
}
