// SPDX-License-Identifier: MIT
// The textbook's example: ten equal keys, so that a query gets the mean of the values within its valid length.
#include <attune/attune.h>
#include <cstdio>
#include <numeric>
#include <vector>

int main() {
    std::vector<float> query = {0.3f, -1.2f, 0.7f, 0.1f}, key(2 * 10 * 2, 1.0f), value(2 * 10 * 4), out(2 * 1 * 4);
    for (auto entry = value.begin(); entry != value.end(); entry += 40) std::iota(entry, entry + 40, 0.0f);
    const std::int32_t lens[] = {2, 6};
    attune::Context context;
    const attune::Status status =
        attune::scaled_dot_product_attention(context, {query.data(), {2, 1, 2}}, {key.data(), {2, 10, 2}},
                                             {value.data(), {2, 10, 4}}, {out.data(), {2, 1, 4}}, {.valid_lens = {lens, {2}}});
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;
    for (int b = 0; b < 2; b++) std::printf("[%g,%g,%g,%g]\n", out[4 * b], out[4 * b + 1], out[4 * b + 2], out[4 * b + 3]);
}
