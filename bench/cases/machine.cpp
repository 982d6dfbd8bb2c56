// SPDX-License-Identifier: MIT
#include "machine.h"
#include "mapped_array.h"
#include "peak_kernels.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace bench {
namespace {

const Kernels &kernels(attune::DType dtype) { return dtype == attune::DType::f64 ? widest().f64 : widest().f32; }

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// The highest rate of a few trials; 0 without a kernel.
double peak(Team &team, Rounds kernel) {
    if (!kernel) return 0;
    // A task is about 0.3 ms: short enough to share the cores evenly, long enough for the counter to cost nothing.
    constexpr std::int64_t rounds = 100000;
    const int tasks = 16 * team.threads();
    double best = 0;
    for (int trial = 0; trial < 4; trial++) {
        std::atomic<double> done = 0;
        const double start = seconds();
        team.run(tasks, [&](int) { done.fetch_add(kernel(rounds)); });
        best = std::max(best, done.load() / (seconds() - start));
    }
    return best;
}

std::string first_line(const char *path) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);
    return line;
}

std::string cpu_model() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
    return "unknown";
}

}  // namespace

const char *vector_isa() { return widest().name; }
int vector_bytes() { return widest().bytes; }

double fma_peak(Team &team, attune::DType dtype) { return peak(team, kernels(dtype).fma); }
double bf16_dot_peak(Team &team) { return peak(team, bf16_dot()); }
double bf16_tile_peak(Team &team) { return peak(team, bf16_tile()); }
double clock_rate() {
    Team one(1);
    return peak(one, additions);
}

double product_peak(Team &team, attune::DType dtype) {
    const double fma = fma_peak(team, dtype);
    return dtype == attune::DType::bf16 ? std::max({fma, bf16_dot_peak(team), bf16_tile_peak(team)}) : fma;
}

void plain_sum(Team &team, attune::DType dtype, const std::vector<Bytes> &arrays) {
    // Several parts per thread, as a kernel has several tasks: a thread that wakes late costs little.
    const int parts = 8 * team.threads();
    const std::size_t element = attune::size_of(dtype);
    team.run(parts, [&](int part) {
        float s = 0;
        for (const Bytes &array : arrays) {
            const std::size_t n = array.size / element, from = n * part / parts, to = n * (part + 1) / parts;
            s += kernels(dtype).sum(static_cast<const char *>(array.data) + from * element, (to - from) * element);
        }
        sink = s;
    });
}

double read_bandwidth(Team &team) {
    const MappedArray array(std::size_t(256) << 20);
    std::fill_n(array.as<float>(), array.bytes() / sizeof(float), 1.f);
    double best = 0;
    for (int trial = 0; trial < 6; trial++) {
        const double start = seconds();
        plain_sum(team, attune::DType::f32, {{array.as<float>(), array.bytes()}});
        best = std::max(best, static_cast<double>(array.bytes()) / (seconds() - start));
    }
    return best;
}

double cached_read_rate(std::size_t bytes) {
    const MappedArray array(bytes);
    std::fill_n(array.as<float>(), bytes / sizeof(float), 1.f);
    const int passes = static_cast<int>(std::max<std::size_t>(2, (std::size_t(64) << 20) / bytes));
    double best = 0;
    for (int trial = 0; trial < 4; trial++) {
        const double start = seconds();
        for (int pass = 0; pass < passes; pass++) sink = kernels(attune::DType::f32).sum(array.as<float>(), bytes);
        best = std::max(best, static_cast<double>(bytes) * passes / (seconds() - start));
    }
    return best;
}

std::vector<Cache> data_caches() {
    std::vector<Cache> caches;
    const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index";
    for (int n = 0;; n++) {
        const std::string at = folder + std::to_string(n), type = first_line((at + "/type").c_str());
        if (type.empty()) return caches;
        const int kibibytes = std::atoi(first_line((at + "/size").c_str()).c_str());  // "32K"
        if (type != "Instruction" && kibibytes > 0)
            caches.push_back({std::atoi(first_line((at + "/level").c_str()).c_str()), std::size_t(kibibytes) << 10});
    }
}

double cpu_seconds_of_others() {
    // user nice system idle iowait irq softirq steal, in clock ticks
    std::ifstream in("/proc/stat");
    std::string cpu;
    double ticks[8] = {};
    if (!(in >> cpu)) return 0;
    for (double &t : ticks) in >> t;
    rusage own = {};
    getrusage(RUSAGE_SELF, &own);
    const auto seconds = [](const timeval &t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
    const double busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6] + ticks[7];
    return busy / static_cast<double>(sysconf(_SC_CLK_TCK)) - seconds(own.ru_utime) - seconds(own.ru_stime);
}

std::vector<std::pair<std::string, std::string>> describe_machine() {
    utsname system = {};
    uname(&system);
    const std::string governor = first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    return {
        {"cpu", cpu_model()}, {"cores", std::to_string(std::thread::hardware_concurrency())}, {"vectors", vector_isa()},
            {"governor", governor.empty() ? "not readable" : governor},
            {"kernel", std::string(system.sysname) + " " + system.release},
#if defined(__clang__)
            {"compiler", "clang " __clang_version__}
#else
        {
            "compiler", "gcc " __VERSION__
        }
#endif
    };
}

}  // namespace bench
