// SPDX-License-Identifier: MIT
// Dropout by distance. Its random numbers are Philox4x32-10's (Salmon et al., 2011), in an implementation of its own.
#include "distance_dropout_attention.h"
#include "gallery.h"
#include <array>
#include <cstdlib>

namespace {
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> c, std::uint32_t low, std::uint32_t high) {
    for (int round = 0; round < 10; round++, low += 0x9E3779B9, high += 0xBB67AE85) {
        const std::uint64_t x = std::uint64_t{0xD2511F53} * c[0], y = std::uint64_t{0xCD9E8D57} * c[2];
        c = {std::uint32_t(y >> 32) ^ c[1] ^ low, std::uint32_t(y), std::uint32_t(x >> 32) ^ c[3] ^ high, std::uint32_t(x)};
    }
    return c;
}
}  // namespace

gallery::Entry gallery::distance_dropout() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return distance_dropout_attention::Options{.reach = c.captures[0].floats[0],
                                                   .seed_low = c.captures[1].integers[0],
                                                   .seed_high = c.captures[2].integers[0],
                                                   .sdpa = sdpa};
    };
    Entry e{"distance_dropout"};
    e.probability = [](const Pair &at, const Captures &c) {
        // In float as in the struct, because this number decides which weights are kept.
        const float reach = float(c[0]()), keep = reach / (reach + float(std::abs(at.i - at.j)));
        const std::uint32_t random =
            philox({std::uint32_t(at.j / 4), std::uint32_t(at.i), std::uint32_t(at.b * at.heads + at.h), 0},
                   std::uint32_t(c[1]()), std::uint32_t(c[2]()))[std::size_t(at.j % 4)];
        return float(random >> 8) < keep * float(1 << 24) ? 1 / double(keep) : 0.0;
    };
    e.checked.queries = e.checked.keys;
    e.captures = [](const Sizes &s) { return std::vector{number(float(s.keys) / 8), number(17), number(0)}; };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return distance_dropout_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return distance_dropout_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                                    options(c, {}));
    };
    return e;
}
