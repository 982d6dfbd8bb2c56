// SPDX-License-Identifier: MIT
// Column intervals: a question and six answers that do not see each other.
#include "column_intervals_attention.h"
#include "gallery.h"
#include <algorithm>

gallery::Entry gallery::column_intervals() {
    const auto options = [](const Call &c, const attune::SdpaOptions &sdpa) {
        return column_intervals_attention::Options{
            .startend_row_indices = c.captures[0], .sdpa = sdpa, .block_mask = c.block_mask};
    };
    Entry e{"column_intervals"};
    e.has_mask = true;
    e.mask = [](const Pair &at, const Captures &c) {
        const auto row = [&](int end) { return c[0](at.b, at.key_head, at.j, end); };
        return at.j <= at.i && (double(at.i) < row(0) || double(at.i) >= row(1));
    };
    e.checked.queries = e.checked.keys;
    e.pictured_heads = 2;
    e.captures = [](const Sizes &s) {
        Array rows{{s.batch, s.key_heads, s.keys, 2}};
        const std::int64_t answer = s.keys / 8, question = s.keys - 6 * answer;
        for (std::int64_t n = 0; n < s.batch * s.key_heads * s.keys; n++) {
            const std::int64_t j = n % s.keys, head = n / s.keys % s.key_heads;
            const std::int64_t end = j < question ? s.keys : j + answer - (j - question) % answer;
            // In every second head, keys are seen again later on.
            rows.integers.push_back(std::int32_t(end));
            rows.integers.push_back(std::int32_t(head % 2 ? std::min(end + answer, s.keys) : s.keys));
        }
        return std::vector{rows};
    };
    e.forward = [options](Call &c, const attune::SdpaOptions &sdpa) {
        return column_intervals_attention::forward(c.context, c.query, c.key, c.value, c.out, options(c, sdpa));
    };
    e.backward = [options](Call &c) {
        return column_intervals_attention::backward(c.context, c.query, c.key, c.value, c.forward(), {.sdpa = c.gradients()},
                                                    options(c, {}));
    };
    return e;
}
