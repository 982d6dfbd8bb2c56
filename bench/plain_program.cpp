// SPDX-License-Identifier: MIT
// attune_plain: the speed of a user's program, without benchmark library and with an ordinary, cold allocator in a fresh
// process: about a second of 1x8x1024x1024x64, f32. Prints one line of JSON.
#include "attune/attune.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

int main() {
    constexpr std::int64_t heads = 8, queries = 1024, keys = 1024, dim = 64;
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> query(heads * queries * dim), key(heads * keys * dim), value(heads * keys * dim),
        out(heads * queries * dim);
    for (auto *x : {&query, &key, &value})
        for (float &element : *x) element = uniform(random);

    attune::Context context;
    std::vector<double> seconds;
    const auto start = std::chrono::steady_clock::now();
    const auto since = [](auto then) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count(); };
    while (since(start) < 1.0) {
        const auto call = std::chrono::steady_clock::now();
        const attune::Status status = attune::scaled_dot_product_attention(
            context, attune::View(query.data(), {1, heads, queries, dim}), attune::View(key.data(), {1, heads, keys, dim}),
            attune::View(value.data(), {1, heads, keys, dim}), attune::View(out.data(), {1, heads, queries, dim}));
        seconds.push_back(since(call));
        if (!status.ok()) {
            std::fprintf(stderr, "attune_plain: %s\n", status.message().c_str());
            return 1;
        }
    }
    std::sort(seconds.begin(), seconds.end());
    const double best = seconds.front(), median = seconds[seconds.size() / 2];
    constexpr double gflop = 4e-9 * heads * queries * keys * dim;
    std::printf(
        "{\"shape\": \"1x8x1024x1024x64 f32\", \"variant\": \"%s\", \"calls\": %zu, \"best_ms\": %.4f, \"median_ms\": %.4f, "
        "\"best_gflops\": %.2f, \"median_gflops\": %.2f}\n",
        context.last_variant().c_str(), seconds.size(), best * 1e3, median * 1e3, gflop / best, gflop / median);
}
