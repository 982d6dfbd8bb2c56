// SPDX-License-Identifier: MIT
// Softcap.
#include "gallery.h"
#include "softcap_attention.h"
#include <cmath>

gallery::Entry gallery::softcap() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return softcap_attention::Options{.cap = c.captures[0].floats[0], .sdpa = sdpa};
    };
    Entry e{"softcap"};
    e.score = [](double x, const Pair &, const Captures &c) { return c[0]() * std::tanh(x / c[0]()); };
    e.captures = [](const Sizes &) { return std::vector{number(1.5f)}; };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return softcap_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return softcap_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                           options(c, {}));
    };
    e.pictures_scores = true;
    return e;
}
