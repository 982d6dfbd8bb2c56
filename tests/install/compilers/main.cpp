// SPDX-License-Identifier: MIT
// The API from C++17: vectors, extents known at run time, a moved Context, and refusals.
#include <attune/attune.h>
#include <cstdio>
#include <numeric>
#include <vector>

static_assert(__cplusplus == 201703L, "attune::attune has changed the standard of a project");

int main() {
    if (attune::linked_version() != ATTUNE_VERSION) return std::printf("headers of another version\n"), 1;
    std::vector<float> query = {0.3f, -1.2f, 0.7f, 0.1f}, key(2 * 10 * 2, 1.0f), value(2 * 10 * 4), out(2 * 1 * 4);
    for (auto entry = value.begin(); entry != value.end(); entry += 40) std::iota(entry, entry + 40, 0.0f);
    const std::vector<std::int32_t> lens = {2, 6};
    const std::vector<std::int64_t> extents = {2, 1, 4};
    attune::Context first, context(std::move(first));
    attune::SdpaOptions options;
    options.valid_lens = lens;
    attune::Status status = attune::scaled_dot_product_attention(context, {query, {2, 1, 2}}, {key, {2, 10, 2}},
                                                                 {value, {2, 10, 4}}, {out, extents}, options);
    if (!status.ok()) return std::printf("%s\n", status.message().c_str()), 1;
    for (int b = 0; b < 2; b++) std::printf("[%g,%g,%g,%g]\n", out[4 * b], out[4 * b + 1], out[4 * b + 2], out[4 * b + 3]);
    status = attune::scaled_dot_product_attention(context, {query, {2, 1, 2}}, {key, {2, 11, 2}}, {value, {2, 10, 4}},
                                                  {out, extents}, options);
    std::printf("%s\n", status.message().c_str());
}
