// SPDX-License-Identifier: MIT
// Packed documents, causal.
#include "documents_attention.h"
#include "gallery.h"
#include <algorithm>

namespace {
constexpr std::int64_t count = 8;

gallery::Array equal(const gallery::Sizes &s) {
    gallery::Array document{{s.batch, s.keys}};
    for (std::int64_t n = 0; n < s.batch * s.keys; n++) document.integers.push_back(std::int32_t(n % s.keys * count / s.keys));
    return document;
}
gallery::Array cut_at_random(const gallery::Sizes &s) {
    gallery::Array document{{s.batch, s.keys}};
    std::mt19937 random(3);
    for (std::int64_t b = 0; b < s.batch; b++) {
        std::vector<std::int64_t> cuts(count - 1);
        for (std::int64_t &cut : cuts) cut = std::int64_t(random() % std::uint64_t(s.keys));
        for (std::int64_t j = 0; j < s.keys; j++)
            document.integers.push_back(
                std::int32_t(std::count_if(cuts.begin(), cuts.end(), [&](std::int64_t cut) { return cut <= j; })));
    }
    return document;
}
}  // namespace

gallery::Entry gallery::documents() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return documents_attention::Options{.document = c.captures[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"documents"};
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &c) { return c[0](at.b, at.i) == c[0](at.b, at.j) && at.j <= at.i; };
    e.checked.queries = e.checked.keys;
    e.captures = [](const Sizes &s) { return std::vector{cut_at_random(s)}; };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return documents_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return documents_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                             options(c, {}));
    };
    const Sizes more = {1, 8, 8, 4096, 4096};
    e.more_timings = {{"8 equal documents", more, [](const Sizes &s) { return std::vector{equal(s)}; }},
                      {"8 documents, cut at random", more, [](const Sizes &s) { return std::vector{cut_at_random(s)}; }}};
    return e;
}
