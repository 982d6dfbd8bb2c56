// SPDX-License-Identifier: MIT
// Forecast of causal attention over ranks that are not here, by simulation of its messages:
//
//   forecast [POSITIONS [HEADS [KEY_HEADS [GIGA_MULTIPLY_ADDS [GIGABYTES [CHUNK]]]]]]
//
// bf16, head size 128. Rates are those of one rank, and of a link in one direction, a second.
#include "arguments.h"
#include <algorithm>
#include <attune/context_parallel.h>
#include <cstdio>

int main(int argc, char **argv) {
    const std::int64_t positions = whole_number(argc, argv, 1, 1 << 20), heads = whole_number(argc, argv, 2, 32),
                       key_heads = whole_number(argc, argv, 3, 8), chunk = whole_number(argc, argv, 6, 1024);
    const attune::ParallelMachine machine{rate(argc, argv, 4, 2000) * 1e9, rate(argc, argv, 5, 12.5) * 1e9, 1e-5};
    const attune::ParallelProblem problem{attune::DType::bf16, 1, heads, key_heads, 128, 128};
    constexpr const char *layouts[] = {"contiguous", "head_tail", "striped", "balanced"};
    constexpr const char *schemes[] = {"ring", "ring_backward", "gathered", "heads"};
    std::printf("| ranks | layout | scheme | seconds | waiting, most of a rank, seconds | GB sent, most of a rank | MB of "
                "messages |\n");
    std::printf("|---:|---|---|---:|---:|---:|---:|\n");
    for (const int ranks : {1, 8, 64, 1024})
        for (const int layout : {0, 1, 2})
            for (const int scheme : {0, 1, 2, 3}) {
                attune::ParallelPlan plan;
                attune::ParallelForecast f;
                attune::Status s = attune::plan_positions(positions, ranks, static_cast<attune::ParallelLayout>(layout), chunk,
                                                          {attune::Causal::top_left, {}, {}}, plan);
                if (s.ok())
                    s = attune::forecast_parallel(plan, problem, static_cast<attune::ParallelScheme>(scheme), machine, f);
                if (!s.ok()) continue;  // ranks that do not divide the heads
                const double waiting = *std::max_element(f.waiting_seconds.begin(), f.waiting_seconds.end());
                const auto bytes = static_cast<double>(*std::max_element(f.bytes_sent.begin(), f.bytes_sent.end()));
                std::printf("| %d | %s | %s | %.3f | %.3f | %.3f | %.1f |\n", ranks, layouts[layout], schemes[scheme],
                            f.seconds, waiting, bytes / 1e9, static_cast<double>(f.buffer_bytes) / 1e6);
            }
    return 0;
}
