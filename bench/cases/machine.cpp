// SPDX-License-Identifier: MIT
// Kernels of the machine's peaks, one per instruction set, and the description of the machine.
#include "machine.h"
#include "mapped_array.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace bench {
namespace {

// Sink of results, so that the compiler cannot drop them.
std::atomic<float> sink;

#if defined(__x86_64__)
// 12 chains hide a latency of 4 cycles at up to 3 multiply-adds a cycle, and leave registers for both constants. The empty asm
// modifies the accumulators, so that the loop is neither folded nor vectorised over rounds.
#define ATTUNE_BENCH_FMA(NAME, ISA, VECTOR, SET, MULTIPLY_ADD) \
    __attribute__((target(ISA), noinline)) double NAME(std::int64_t rounds) { \
        constexpr int chains = 12; \
        VECTOR m = SET(0.999), c = SET(0.001), a[chains]; \
        _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) a[n] = SET(n); \
        for (std::int64_t r = 0; r < rounds; r++) { \
            _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) { \
                a[n] = MULTIPLY_ADD(a[n], m, c); \
                asm("" : "+x"(a[n])); \
            } \
        } \
        _Pragma("GCC unroll 12") for (int n = 1; n < chains; n++) a[0] = a[0] + a[n]; \
        sink = static_cast<float>(a[0][0]); \
        return 2.0 * chains * (sizeof(VECTOR) / sizeof(a[0][0])) * static_cast<double>(rounds); \
    }
#define ATTUNE_BENCH_MUL_ADD_PS(a, m, c) _mm_add_ps(_mm_mul_ps(a, m), c)
#define ATTUNE_BENCH_MUL_ADD_PD(a, m, c) _mm_add_pd(_mm_mul_pd(a, m), c)
ATTUNE_BENCH_FMA(fma_avx512_f32, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps)
ATTUNE_BENCH_FMA(fma_avx512_f64, "avx512f", __m512d, _mm512_set1_pd, _mm512_fmadd_pd)
ATTUNE_BENCH_FMA(fma_avx2_f32, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps)
ATTUNE_BENCH_FMA(fma_avx2_f64, "avx2,fma", __m256d, _mm256_set1_pd, _mm256_fmadd_pd)
ATTUNE_BENCH_FMA(fma_sse2_f32, "sse2", __m128, _mm_set1_ps, ATTUNE_BENCH_MUL_ADD_PS)
ATTUNE_BENCH_FMA(fma_sse2_f64, "sse2", __m128d, _mm_set1_pd, ATTUNE_BENCH_MUL_ADD_PD)

// Peak of the bf16 dot product: as above, with pairs of bf16 as factors; each lane of an accumulator takes two multiply-adds.
__attribute__((target("avx512f,avx512bf16"), noinline)) double dot_avx512_bf16(std::int64_t rounds) {
    constexpr int chains = 12;
    const __m512bh m = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.5f));
    __m512bh c = m;
    asm("" : "+x"(c));
    __m512 a[chains];
    _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) a[n] = _mm512_set1_ps(static_cast<float>(n));
    for (std::int64_t r = 0; r < rounds; r++) {
        _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) {
            a[n] = _mm512_dpbf16_ps(a[n], m, c);
            asm("" : "+x"(a[n]));
        }
    }
    _Pragma("GCC unroll 12") for (int n = 1; n < chains; n++) a[0] = a[0] + a[n];
    sink = a[0][0];
    return 4.0 * chains * 16 * static_cast<double>(rounds);
}

// Peak of AMX tiles of bf16: four accumulators of 16 by 16, to each of which an instruction adds 32 terms.
__attribute__((target("amx-tile,amx-bf16"), noinline)) double tile_amx_bf16(std::int64_t rounds) {
    // Static, because the compiler believes that the instruction reads only its first bytes.
    struct alignas(64) Configuration {
        std::uint8_t palette = 1, start = 0, reserved[14] = {};
        std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    static const Configuration configuration;
    alignas(64) static const std::uint16_t zeros[16 * 32] = {};
    _tile_loadconfig(&configuration);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_loadd(4, zeros, 64);
    _tile_loadd(5, zeros, 64);
    for (std::int64_t r = 0; r < rounds; r += 16) {
        _tile_dpbf16ps(0, 4, 5);
        _tile_dpbf16ps(1, 4, 5);
        _tile_dpbf16ps(2, 4, 5);
        _tile_dpbf16ps(3, 4, 5);
    }
    _tile_release();
    return 4.0 * 2 * 16 * 16 * 32 * static_cast<double>((rounds + 15) / 16);
}

// Asks Linux for the registers of AMX tiles, which a process has on request only.
bool has_tiles() {
    constexpr int ask_for_state = 0x1023, tile_data = 18;
    return __builtin_cpu_supports("amx-bf16") && syscall(SYS_arch_prctl, ask_for_state, tile_data) == 0;
}

// Sum with eight accumulators: additions wait for memory only, never for each other. The tail below a block is a few elements.
#define ATTUNE_BENCH_SUM(NAME, ISA, ELEMENT, VECTOR, LOAD, ADD, ZERO) \
    __attribute__((target(ISA), noinline)) float NAME(const void *data, std::size_t bytes) { \
        constexpr std::size_t lanes = sizeof(VECTOR) / sizeof(ELEMENT), block = 8 * lanes; \
        const ELEMENT *const p = static_cast<const ELEMENT *>(data); \
        const std::size_t n = bytes / sizeof(ELEMENT); \
        VECTOR a[8]; \
        _Pragma("GCC unroll 8") for (int u = 0; u < 8; u++) a[u] = ZERO(); \
        std::size_t j = 0; \
        for (; j + block <= n; j += block) \
            _Pragma("GCC unroll 8") for (std::size_t u = 0; u < 8; u++) a[u] = ADD(a[u], LOAD(p + j + u * lanes)); \
        _Pragma("GCC unroll 8") for (int u = 1; u < 8; u++) a[0] = ADD(a[0], a[u]); \
        ELEMENT s = 0; \
        for (std::size_t l = 0; l < lanes; l++) s += a[0][l]; \
        for (; j < n; j++) s += p[j]; \
        return static_cast<float>(s); \
    }
ATTUNE_BENCH_SUM(sum_avx512_f32, "avx512f", float, __m512, _mm512_loadu_ps, _mm512_add_ps, _mm512_setzero_ps)
ATTUNE_BENCH_SUM(sum_avx512_f64, "avx512f", double, __m512d, _mm512_loadu_pd, _mm512_add_pd, _mm512_setzero_pd)
ATTUNE_BENCH_SUM(sum_avx2_f32, "avx2,fma", float, __m256, _mm256_loadu_ps, _mm256_add_ps, _mm256_setzero_ps)
ATTUNE_BENCH_SUM(sum_avx2_f64, "avx2,fma", double, __m256d, _mm256_loadu_pd, _mm256_add_pd, _mm256_setzero_pd)
ATTUNE_BENCH_SUM(sum_sse2_f32, "sse2", float, __m128, _mm_loadu_ps, _mm_add_ps, _mm_setzero_ps)
ATTUNE_BENCH_SUM(sum_sse2_f64, "sse2", double, __m128d, _mm_loadu_pd, _mm_add_pd, _mm_setzero_pd)
#else
template<typename T> double fma_scalar(std::int64_t rounds) {
    constexpr int chains = 32;
    T a[chains] = {};
    for (std::int64_t r = 0; r < rounds; r++)
        for (T &x : a) x = x * T(0.999) + T(0.001);
    for (T x : a) sink = sink + static_cast<float>(x);
    return 2.0 * chains * static_cast<double>(rounds);
}
template<typename T> float sum_scalar(const void *data, std::size_t bytes) {
    const T *const p = static_cast<const T *>(data);
    const std::size_t n = bytes / sizeof(T);
    T a[64] = {};
    std::size_t j = 0;
    for (; j + 64 <= n; j += 64)
        for (std::size_t u = 0; u < 64; u++) a[u] += p[j + u];
    for (; j < n; j++) a[0] += p[j];
    for (int u = 1; u < 64; u++) a[0] += a[u];
    return static_cast<float>(a[0]);
}
#endif

struct Kernels {
    double (*fma)(std::int64_t);              // runs so many rounds, returns their FLOPs
    float (*sum)(const void *, std::size_t);  // sum of so many bytes
};
struct Isa {
    const char *name;
    Kernels f32, f64;
};

const Isa &widest() {
    static const Isa isa = [] {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return Isa{"avx512f", {fma_avx512_f32, sum_avx512_f32}, {fma_avx512_f64, sum_avx512_f64}};
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            return Isa{"avx2+fma", {fma_avx2_f32, sum_avx2_f32}, {fma_avx2_f64, sum_avx2_f64}};
        return Isa{"sse2", {fma_sse2_f32, sum_sse2_f32}, {fma_sse2_f64, sum_sse2_f64}};
#else
        return Isa{"scalar", {fma_scalar<float>, sum_scalar<float>}, {fma_scalar<double>, sum_scalar<double>}};
#endif
    }();
    return isa;
}

const Kernels &kernels(attune::DType dtype) { return dtype == attune::DType::f64 ? widest().f64 : widest().f32; }

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double peak(Team &team, double (*kernel)(std::int64_t)) {
    // A task is about 0.3 ms: short enough to share the cores evenly, long enough for the counter to cost nothing.
    constexpr std::int64_t rounds = 100000;
    const int tasks = 16 * team.threads();
    double best = 0;
    for (int trial = 0; trial < 4; trial++) {
        std::atomic<double> flops = 0;
        const double start = seconds();
        team.run(tasks, [&](int) { flops.fetch_add(kernel(rounds)); });
        best = std::max(best, flops.load() / (seconds() - start));
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

double fma_peak(Team &team, attune::DType dtype) { return peak(team, kernels(dtype).fma); }

double bf16_dot_peak(Team &team) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16")) return peak(team, dot_avx512_bf16);
#endif
    static_cast<void>(team);
    return 0;
}

double bf16_tile_peak(Team &team) {
#if defined(__x86_64__)
    if (has_tiles()) return peak(team, tile_amx_bf16);
#endif
    static_cast<void>(team);
    return 0;
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
