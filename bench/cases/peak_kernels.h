// SPDX-License-Identifier: MIT
// Loops whose speed is a peak of the machine, for each instruction set. Included by machine.cpp alone.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace bench {
namespace {

// Sink of results, so that the compiler cannot drop them.
std::atomic<float> sink;

// 12 chains hide a latency of 4 cycles at up to 3 multiply-adds a cycle, and leave registers for both constants. The empty asm
// modifies the accumulators, so that the loop is neither folded nor vectorised over rounds.
#define ATTUNE_BENCH_FMA(NAME, ISA, REGISTER, VECTOR, SET, MULTIPLY_ADD) \
    __attribute__((target(ISA), noinline)) double NAME(std::int64_t rounds) { \
        constexpr int chains = 12; \
        VECTOR m = SET(0.999), c = SET(0.001), a[chains]; \
        _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) a[n] = SET(n); \
        for (std::int64_t r = 0; r < rounds; r++) { \
            _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) { \
                a[n] = MULTIPLY_ADD(a[n], m, c); \
                asm("" : REGISTER(a[n])); \
            } \
        } \
        _Pragma("GCC unroll 12") for (int n = 1; n < chains; n++) a[0] = a[0] + a[n]; \
        sink = static_cast<float>(a[0][0]); \
        return 2.0 * chains * (sizeof(VECTOR) / sizeof(a[0][0])) * static_cast<double>(rounds); \
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

#if defined(__x86_64__)
#define ATTUNE_BENCH_X86(a) "+x"(a)
#define ATTUNE_BENCH_MUL_ADD_PS(a, m, c) _mm_add_ps(_mm_mul_ps(a, m), c)
#define ATTUNE_BENCH_MUL_ADD_PD(a, m, c) _mm_add_pd(_mm_mul_pd(a, m), c)
ATTUNE_BENCH_FMA(fma_avx512_f32, "avx512f", ATTUNE_BENCH_X86, __m512, _mm512_set1_ps, _mm512_fmadd_ps)
ATTUNE_BENCH_FMA(fma_avx512_f64, "avx512f", ATTUNE_BENCH_X86, __m512d, _mm512_set1_pd, _mm512_fmadd_pd)
ATTUNE_BENCH_FMA(fma_avx2_f32, "avx2,fma", ATTUNE_BENCH_X86, __m256, _mm256_set1_ps, _mm256_fmadd_ps)
ATTUNE_BENCH_FMA(fma_avx2_f64, "avx2,fma", ATTUNE_BENCH_X86, __m256d, _mm256_set1_pd, _mm256_fmadd_pd)
ATTUNE_BENCH_FMA(fma_sse2_f32, "sse2", ATTUNE_BENCH_X86, __m128, _mm_set1_ps, ATTUNE_BENCH_MUL_ADD_PS)
ATTUNE_BENCH_FMA(fma_sse2_f64, "sse2", ATTUNE_BENCH_X86, __m128d, _mm_set1_pd, ATTUNE_BENCH_MUL_ADD_PD)
ATTUNE_BENCH_SUM(sum_avx512_f32, "avx512f", float, __m512, _mm512_loadu_ps, _mm512_add_ps, _mm512_setzero_ps)
ATTUNE_BENCH_SUM(sum_avx512_f64, "avx512f", double, __m512d, _mm512_loadu_pd, _mm512_add_pd, _mm512_setzero_pd)
ATTUNE_BENCH_SUM(sum_avx2_f32, "avx2,fma", float, __m256, _mm256_loadu_ps, _mm256_add_ps, _mm256_setzero_ps)
ATTUNE_BENCH_SUM(sum_avx2_f64, "avx2,fma", double, __m256d, _mm256_loadu_pd, _mm256_add_pd, _mm256_setzero_pd)
ATTUNE_BENCH_SUM(sum_sse2_f32, "sse2", float, __m128, _mm_loadu_ps, _mm_add_ps, _mm_setzero_ps)
ATTUNE_BENCH_SUM(sum_sse2_f64, "sse2", double, __m128d, _mm_loadu_pd, _mm_add_pd, _mm_setzero_pd)

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
#elif defined(__aarch64__)
#define ATTUNE_BENCH_ARM(a) "+w"(a)
#define ATTUNE_BENCH_ZERO_F32() vdupq_n_f32(0)
#define ATTUNE_BENCH_ZERO_F64() vdupq_n_f64(0)
ATTUNE_BENCH_FMA(fma_neon_f32, "+simd", ATTUNE_BENCH_ARM, float32x4_t, vdupq_n_f32, vfmaq_f32)
ATTUNE_BENCH_FMA(fma_neon_f64, "+simd", ATTUNE_BENCH_ARM, float64x2_t, vdupq_n_f64, vfmaq_f64)
ATTUNE_BENCH_SUM(sum_neon_f32, "+simd", float, float32x4_t, vld1q_f32, vaddq_f32, ATTUNE_BENCH_ZERO_F32)
ATTUNE_BENCH_SUM(sum_neon_f64, "+simd", double, float64x2_t, vld1q_f64, vaddq_f64, ATTUNE_BENCH_ZERO_F64)

// Peak of bfdot, which adds the products of two pairs of bf16 to a float.
__attribute__((target("arch=armv8.2-a+bf16"), noinline)) double dot_neon_bf16(std::int64_t rounds) {
    constexpr int chains = 12;
    uint16x8_t half = vdupq_n_u16(0x3f00);  // 0.5
    asm("" : "+w"(half));                   // GCC 12 would make a constant of f16 instructions
    const bfloat16x8_t m = vreinterpretq_bf16_u16(half), c = m;
    float32x4_t a[chains];
    _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) a[n] = vdupq_n_f32(static_cast<float>(n));
    for (std::int64_t r = 0; r < rounds; r++) {
        _Pragma("GCC unroll 12") for (int n = 0; n < chains; n++) {
            a[n] = vbfdotq_f32(a[n], m, c);
            asm("" : "+w"(a[n]));
        }
    }
    _Pragma("GCC unroll 12") for (int n = 1; n < chains; n++) a[0] = a[0] + a[n];
    sink = a[0][0];
    return 4.0 * chains * 4 * static_cast<double>(rounds);
}
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

using Rounds = double (*)(std::int64_t);  // runs so many rounds, returns their FLOPs
struct Kernels {
    Rounds fma;
    float (*sum)(const void *, std::size_t);  // sum of so many bytes
};
struct Isa {
    const char *name;
    int bytes;  // of a vector
    Kernels f32, f64;
};

const Isa &widest() {
    static const Isa isa = [] {
#if defined(__x86_64__)
        if (__builtin_cpu_supports("avx512f"))
            return Isa{"avx512f", 64, {fma_avx512_f32, sum_avx512_f32}, {fma_avx512_f64, sum_avx512_f64}};
        if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
            return Isa{"avx2+fma", 32, {fma_avx2_f32, sum_avx2_f32}, {fma_avx2_f64, sum_avx2_f64}};
        return Isa{"sse2", 16, {fma_sse2_f32, sum_sse2_f32}, {fma_sse2_f64, sum_sse2_f64}};
#elif defined(__aarch64__)
        return Isa{"neon", 16, {fma_neon_f32, sum_neon_f32}, {fma_neon_f64, sum_neon_f64}};
#else
        return Isa{"scalar", 4, {fma_scalar<float>, sum_scalar<float>}, {fma_scalar<double>, sum_scalar<double>}};
#endif
    }();
    return isa;
}

// Products of bf16 by dot products and by tiles; null where the CPU has none.
Rounds bf16_dot() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16")) return dot_avx512_bf16;
#elif defined(__aarch64__)
    constexpr int bf16 = 14;  // of AT_HWCAP2
    if (getauxval(AT_HWCAP2) >> bf16 & 1) return dot_neon_bf16;
#endif
    return nullptr;
}
Rounds bf16_tile() {
#if defined(__x86_64__)
    if (has_tiles()) return tile_amx_bf16;
#endif
    return nullptr;
}

// Additions that wait for one another, each a cycle of the core's clock. A register is added to itself: some cores do the
// addition of a constant ahead of time.
double additions(std::int64_t rounds) {
    std::uint64_t x = 1;
    for (std::int64_t r = 0; r < rounds; r++) {
#if defined(__x86_64__)
#define ATTUNE_BENCH_ADD asm volatile("add %0, %0" : "+r"(x));
#elif defined(__aarch64__)
#define ATTUNE_BENCH_ADD asm volatile("add %0, %0, %0" : "+r"(x));
#else
#define ATTUNE_BENCH_ADD x += x;
#endif
        ATTUNE_BENCH_ADD ATTUNE_BENCH_ADD ATTUNE_BENCH_ADD ATTUNE_BENCH_ADD ATTUNE_BENCH_ADD ATTUNE_BENCH_ADD ATTUNE_BENCH_ADD
            ATTUNE_BENCH_ADD
    }
    sink = static_cast<float>(x);
    return 8.0 * static_cast<double>(rounds);
}

}  // namespace
}  // namespace bench
