// SPDX-License-Identifier: MIT
// attune doctor --measure: peaks of this machine, in a few seconds.
#include "bench/cases/machine.h"
#include "tools/commands/commands.h"
#include "tools/text.h"
#include <attune/context.h>
#include <chrono>

namespace attune::program {
namespace {

std::string giga(double rate) { return formatted("%.3g", rate / 1e9); }

// Multiply-adds of one kind on one thread and on all, and how many vectors of them a cycle takes.
std::string products_text(double one, double all, int threads, double flops_of_vector, double clock) {
    std::string text = giga(one) + " GFLOP/s on one thread";
    if (clock > 0) text += " (" + formatted("%.2f", one / flops_of_vector / clock) + " instructions a cycle)";
    return threads > 1 ? text + ", " + giga(all) + " on " + std::to_string(threads) : text;
}

}  // namespace

std::string doctor_measures() {
    const int threads = default_threads().threads;
    bench::Team one(1), all(threads);
    const auto start = std::chrono::steady_clock::now();
    const double others = bench::cpu_seconds_of_others(), clock = bench::clock_rate();
    const int lanes = bench::vector_bytes() / 4;
    std::string out = "\nmeasured, at the widest vectors of this CPU\n";
    out += doctor_line("vectors", std::string(bench::vector_isa()) + ", " + std::to_string(lanes) + " lanes of f32");
    out += doctor_line("clock", formatted("%.2f", clock / 1e9) + " GHz, one core at work");
    const auto products = [&](const char *name, double (*peak)(bench::Team &), double flops_of_vector) {
        if (const double of_one = peak(one); of_one > 0)
            out += doctor_line(name, products_text(of_one, peak(all), threads, flops_of_vector, clock));
    };
    products(
        "f32", [](bench::Team &team) { return bench::fma_peak(team, DType::f32); }, 2.0 * lanes);
    products(
        "f64", [](bench::Team &team) { return bench::fma_peak(team, DType::f64); }, 1.0 * lanes);
    products("bf16, pairs", bench::bf16_dot_peak, 4.0 * lanes);
    products("bf16, tiles", bench::bf16_tile_peak, 2.0 * 16 * 16 * 32);
    for (const bench::Cache &cache : bench::data_caches())
        out += doctor_line("L" + std::to_string(cache.level) + " cache", std::to_string(cache.bytes >> 10) + " KiB, read at " +
                                                                             giga(bench::cached_read_rate(cache.bytes / 2)) +
                                                                             " GB/s on one thread (half of it)");
    const std::string of_all = threads > 1 ? ", " + giga(bench::read_bandwidth(all)) + " on " + std::to_string(threads) : "";
    out += doctor_line("memory", "read at " + giga(bench::read_bandwidth(one)) + " GB/s on one thread" + of_all);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (const double busy = (bench::cpu_seconds_of_others() - others) / took.count(); busy > 0.1)
        out += doctor_line("warning", "other processes took " + formatted("%.1f", busy) +
                                          " cores meanwhile: a quiet machine may be faster");
    return out;
}

}  // namespace attune::program
