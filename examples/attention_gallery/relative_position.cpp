// SPDX-License-Identifier: MIT
// T5's relative position: the bucket by its definition, with logarithms.
#include "gallery.h"
#include "relative_position_attention.h"
#include <algorithm>
#include <cmath>

namespace {
// Bucket of a distance. Half of the 32 buckets are for keys ahead. In each half, eight are for a distance each, the others
// divide the logarithm up to 128.
std::int64_t bucket_of(std::int64_t ahead) {
    constexpr std::int64_t half = 16, exact = 8;
    const std::int64_t first = ahead > 0 ? half : 0, distance = std::abs(ahead);
    if (distance < exact) return first + distance;
    // Distances at the begin of a bucket are powers of 2, where rounding must not decide.
    const double share = std::log2(double(distance) / exact) / std::log2(128.0 / exact);
    return first + std::min(exact + std::int64_t(std::floor(share * (half - exact))), half - 1);
}
}  // namespace

gallery::Entry gallery::relative_position() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return relative_position_attention::Options{.table = c.captures[0], .sdpa = sdpa};
    };
    Entry e{"relative_position"};
    e.score = [](double x, const Pair &at, const Captures &c) { return x + c[0](bucket_of(at.j - at.position), at.h); };
    e.captures = [](const Sizes &s) {
        std::mt19937 random(5);
        return std::vector{normal({32, s.heads}, random)};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return relative_position_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return relative_position_attention::backward(c.context, c.query, c.key, c.value, c.forward(),
                                                     {.sdpa = c.gradients(), .table = c.grad_captures[0]}, options(c, {}));
    };
    e.checked = {1, 4, 2, 100, 140};  // beyond the last bucket
    e.pictured_heads = 2;
    return e;
}
