// SPDX-License-Identifier: MIT
// Two queries against ten keys each, of which the first 2 and the first 6 take part.
#include <attune/attune.h>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <vector>

int main() {
    const std::vector<float> query = {0.5f, -1.0f, 2.0f, 0.25f};  // (B, Sq, Dk) = (2, 1, 2)
    const std::vector<float> key(2 * 10 * 2, 1.0f);               // (B, Sk, Dk) = (2, 10, 2), all keys alike
    std::vector<float> value(10 * 4), out(2 * 4);                 // (1, Sk, Dv) for both batch entries; (B, Sq, Dv)
    std::iota(value.begin(), value.end(), 0.0f);
    const std::int32_t valid_lens[] = {2, 6};

    attune::Context context;  // all cores
    const attune::Status status =
        attune::scaled_dot_product_attention(context, {query, {2, 1, 2}}, {key, {2, 10, 2}},
                                             {value, {2, 10, 4}, {0, 4, 1}},  // stride 0: the batch entries share their values
                                             {out, {2, 1, 4}}, {.valid_lens = valid_lens});
    if (!status.ok()) return std::fprintf(stderr, "%s\n", status.message().c_str()), 1;

    for (int b = 0; b < 2; b++) std::printf("[%g,%g,%g,%g]\n", out[4 * b], out[4 * b + 1], out[4 * b + 2], out[4 * b + 3]);
}
