// SPDX-License-Identifier: MIT
// Emulator of the AMX tile instructions that our kernels hold, on a CPU without AMX: a handler of SIGILL executes them on the
// registers and memory of the faulting thread. Also the 16-bit moves of AVX512-FP16, its conversions to and from f32 and its
// comparison, which LLVM emits beside them. The semantics are those of Intel's manual, volume 2, as far as kernels use each
// instruction.
#pragma once
#include <array>
#include <atomic>
#include <cpuid.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ucontext.h>
#include <xmmintrin.h>

namespace amx {

// Number of tdpbf16ps executed so far, by all threads.
inline std::atomic<long> products{0};

namespace detail {

struct Tiles {
    std::uint8_t rows[8] = {};
    std::uint16_t row_bytes[8] = {};
    char data[8][16][64] = {};
};
inline thread_local Tiles tiles;
inline struct sigaction before;  // the handler that Emulation replaced

template<typename T> T load(const void *from) {
    T x;
    std::memcpy(&x, from, sizeof x);
    return x;
}

// Operands behind an opcode: ModRM, SIB, displacement.
struct Operands {
    bool in_memory;
    int reg, rm;                       // numbers of registers; rm only if not in_memory
    std::int64_t base = 0, index = 0;  // with displacement and scale; a tile's index is the stride of its rows
    const std::uint8_t *end;
    char *address(int row = 1) const { return reinterpret_cast<char *>(base + row * index); }
};

inline greg_t &general_register(ucontext_t *u, int n) {
    constexpr int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                             REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
    return u->uc_mcontext.gregs[order[n]];
}

// Decodes operands. `prefix` holds the bits that extend register numbers, inverted: R X B R'. EVEX scales a short displacement.
inline Operands operands_at(ucontext_t *u, const std::uint8_t *at, std::uint8_t prefix, bool evex, int element_bytes) {
    const int x = (prefix & 0x40) ? 0 : 8, b = (prefix & 0x20) ? 0 : 8, mod = *at >> 6, low = *at & 7;
    Operands o{mod != 3, ((*at >> 3) & 7) | ((prefix & 0x80) ? 0 : 8), low | b, 0, 0, at + 1};
    if (evex && !(prefix & 0x10)) o.reg |= 16;
    if (!o.in_memory && evex && x) o.rm |= 16;
    if (!o.in_memory) return o;
    const bool based = mod != 0 || low != 4 || (at[1] & 7) != 5, relative = mod == 0 && low == 5;  // to the next instruction
    if (low == 4) {
        const std::uint8_t sib = *o.end++;
        const int index = ((sib >> 3) & 7) | x;
        if (index != 4) o.index = static_cast<std::int64_t>(general_register(u, index)) * (1 << (sib >> 6));
        o.rm = (sib & 7) | b;
    }
    if (based && !relative) o.base = general_register(u, o.rm);
    if (mod == 1) o.base += static_cast<std::int8_t>(*o.end++) * element_bytes;
    if (mod == 2 || relative || !based) o.base += load<std::int32_t>(o.end), o.end += 4;
    if (relative) o.base += reinterpret_cast<std::int64_t>(o.end);
    return o;
}

// Where the XSAVE area holds each component. CPUID is executed once a component: in a virtual machine it leaves the guest.
inline const std::array<unsigned, 8> component_offset = [] {
    std::array<unsigned, 8> offsets{};
    for (int component = 2; component < 8; component++) {
        unsigned size, c, d;
        __cpuid_count(0xd, component, size, offsets[component], c, d);
    }
    return offsets;
}();

// The registers zmm0 to zmm31 as Linux saved them for the handler, and will restore them, in the XSAVE format.
class VectorRegisters {
public:
    explicit VectorRegisters(ucontext_t *u) : area_(reinterpret_cast<char *>(u->uc_mcontext.fpregs)) {}
    char *low(int n) { return quarter(n, 0); }
    // 16 bytes of register n.
    char *quarter(int n, int which) {
        if (n >= 16) return part(7, 64, n - 16) + 16 * which;
        if (which == 0) return area_ + 160 + 16 * n;
        return which == 1 ? part(2, 16, n) : part(6, 32, n) + 16 * (which - 2);
    }
    char *element(int n, int which, int bytes) { return quarter(n, which * bytes / 16) + which * bytes % 16; }
    // Writes the first bytes of register n and clears the rest, as every instruction does.
    template<int count> void set(int n, const char (&bytes)[count]) {
        for (int which = 0; which < 4; which++) {
            std::memset(quarter(n, which), 0, 16);
            if (16 * which < count) std::memcpy(quarter(n, which), &bytes[16 * which], 16);
        }
        in_use(1 << 1 | 1 << 2 | 1 << 6 | 1 << 7);
    }
    void set_mask(int n, std::uint64_t mask) {
        std::memcpy(part(5, 8, n), &mask, sizeof mask);
        in_use(1 << 5);
    }

private:
    char *area_;
    // Marks components as in use, without which they would be restored as zeros. A component holds zeros until then.
    void in_use(std::uint64_t components) {
        const std::uint64_t all = load<std::uint64_t>(area_ + 512) | components;
        std::memcpy(area_ + 512, &all, sizeof all);
    }
    // Register n of a component: 5 mask registers, 2 upper halves of ymm, 6 upper halves of zmm, 7 zmm16 to zmm31.
    char *part(int component, int bytes, int n) { return area_ + component_offset[component] + bytes * n; }
};

// Element n of an operand with elements of so many bytes.
inline const char *element(const Operands &o, VectorRegisters &vectors, int n, int bytes) {
    return o.in_memory ? o.address() + bytes * n : vectors.element(o.rm, n, bytes);
}

// Number of the second register operand, which EVEX holds inverted.
inline int second_register(const std::uint8_t *at) { return ((~at[2] >> 3) & 15) | ((at[3] & 8) ? 0 : 16); }

// Executes vcvtph2psx or vcvtps2phx of 16 numbers.
inline const std::uint8_t *run_conversion(ucontext_t *u, const std::uint8_t *at, bool to_f32) {
    if (at[3] & 0x10) return nullptr;  // a broadcast, or an explicit rounding mode
    const Operands o = operands_at(u, at + 5, at[1], true, to_f32 ? 32 : 64);
    VectorRegisters vectors(u);
    char f32[64], f16[32];
    for (int n = 0; n < 16; n++) {
        const char *from = element(o, vectors, n, to_f32 ? 2 : 4);
        const float x = to_f32 ? static_cast<float>(load<_Float16>(from)) : load<float>(from);
        const auto narrow = static_cast<_Float16>(x);
        std::memcpy(&f32[4 * n], &x, sizeof x), std::memcpy(&f16[2 * n], &narrow, sizeof narrow);
    }
    to_f32 ? vectors.set(o.reg, f32) : vectors.set(o.reg, f16);
    return o.end;
}

// Executes vcmpneqph: true where f16 differ, or one is NaN.
inline const std::uint8_t *run_comparison(ucontext_t *u, const std::uint8_t *at) {
    const int bytes = 16 << ((at[3] >> 5) & 3);
    const Operands o = operands_at(u, at + 5, at[1], true, bytes);
    constexpr std::uint8_t unequal_or_unordered = 4;
    if (*o.end != unequal_or_unordered || (at[3] & 0x10)) return nullptr;
    VectorRegisters vectors(u);
    std::uint64_t mask = 0;
    for (int n = 0; n < bytes / 2; n++) {
        const auto x = load<_Float16>(vectors.element(second_register(at), n, 2));
        const auto y = load<_Float16>(element(o, vectors, n, 2));
        mask |= std::uint64_t{!(static_cast<float>(x) == static_cast<float>(y))} << n;
    }
    vectors.set_mask(o.reg & 7, mask);
    return o.end + 1;
}

// Executes vmovw between memory or a general register and a vector, or vmovsh of vectors. Returns the next instruction.
inline const std::uint8_t *run_evex(ucontext_t *u, const std::uint8_t *at) {
    const int map = at[1] & 7, pp = at[2] & 3, opcode = at[4], mask = at[3] & 7;
    const bool of_512_bits = (at[3] & 0x60) == 0x40;
    if (map == 6 && pp == 1 && opcode == 0x13 && !mask && of_512_bits) return run_conversion(u, at, true);
    if (map == 5 && pp == 1 && opcode == 0x1d && !mask && of_512_bits) return run_conversion(u, at, false);
    if (map == 3 && pp == 0 && opcode == 0xc2 && !mask) return run_comparison(u, at);
    if (map != 5 || mask) return nullptr;
    const Operands o = operands_at(u, at + 5, at[1], true, 2);
    VectorRegisters vectors(u);
    char *scalar = o.in_memory ? o.address() : reinterpret_cast<char *>(&general_register(u, o.rm & 15));
    char bytes[16] = {};
    if (pp == 1 && opcode == 0x6e) {
        std::memcpy(bytes, scalar, 2);
        vectors.set(o.reg, bytes);
    } else if (pp == 1 && opcode == 0x7e) {
        if (!o.in_memory) general_register(u, o.rm & 15) = 0;
        std::memcpy(scalar, vectors.low(o.reg), 2);
    } else if (pp == 2 && opcode == 0x10 && !o.in_memory) {
        std::memcpy(bytes, vectors.low(second_register(at)), 16);
        std::memcpy(bytes, vectors.low(o.rm), 2);
        vectors.set(o.reg, bytes);
    } else {
        return nullptr;
    }
    return o.end;
}

inline float widened(const char *bf16) {
    const std::uint32_t bits = std::uint32_t{load<std::uint16_t>(bf16)} << 16;
    return load<float>(&bits);
}

// to += a b, where a row of b holds a pair of terms for each column. Even and odd terms have separate sums.
inline void multiply(int to, int a, int b) {
    _mm_setcsr(0x9fc0);  // round to nearest, denormals are zero; Linux restores MXCSR
    for (int m = 0; m < tiles.rows[to]; m++) {
        float sums[2][16] = {};
        for (int k = 0; k < tiles.row_bytes[a] / 4; k++)
            for (int e = 0; e < 2; e++) {
                const float x = widened(&tiles.data[a][m][4 * k + 2 * e]);
                for (int n = 0; n < tiles.row_bytes[to] / 4; n++) sums[e][n] += x * widened(&tiles.data[b][k][4 * n + 2 * e]);
            }
        for (int n = 0; n < tiles.row_bytes[to] / 4; n++) {
            const float sum = load<float>(&tiles.data[to][m][4 * n]) + (sums[0][n] + sums[1][n]);
            std::memcpy(&tiles.data[to][m][4 * n], &sum, sizeof sum);
        }
    }
    products++;
}

// Executes an AMX instruction. Returns the next instruction.
inline const std::uint8_t *run_vex(ucontext_t *u, const std::uint8_t *at) {
    const int map = at[1] & 0x1f, pp = at[2] & 3, other = (~at[2] >> 3) & 15, opcode = at[3];
    if (map != 2) return nullptr;
    const Operands o = operands_at(u, at + 4, at[1], false, 1);
    if (opcode == 0x49 && pp == 0) {  // tilerelease, ldtilecfg
        tiles = Tiles();
        for (int n = 0; n < 8 && o.in_memory; n++)
            std::memcpy(&tiles.row_bytes[n], o.address() + 16 + 2 * n, 2), std::memcpy(&tiles.rows[n], o.address() + 48 + n, 1);
        return o.end;
    }
    if (o.reg > 7) return nullptr;
    auto &tile = tiles.data[o.reg];
    const int rows = tiles.rows[o.reg], bytes = tiles.row_bytes[o.reg];
    const bool past_l1 = opcode == 0x4b && pp == 1 && o.in_memory;
    if (past_l1 || (opcode == (o.in_memory ? 0x4b : 0x49) && pp == 3)) {  // tileloaddt1, tileloadd, tilezero
        std::memset(tile, 0, sizeof tile);
        for (int n = 0; n < rows && o.in_memory; n++) std::memcpy(tile[n], o.address(n), bytes);
    } else if (opcode == 0x4b && pp == 2 && o.in_memory) {  // tilestored
        for (int n = 0; n < rows; n++) std::memcpy(o.address(n), tile[n], bytes);
    } else if (opcode == 0x5c && pp == 2 && !o.in_memory && o.rm < 8 && other < 8) {
        multiply(o.reg, o.rm, other);
    } else {
        return nullptr;
    }
    return o.end;
}

inline void on_illegal_instruction(int, siginfo_t *, void *context) {
    auto *u = static_cast<ucontext_t *>(context);
    greg_t &instruction = u->uc_mcontext.gregs[REG_RIP];
    const auto *at = reinterpret_cast<const std::uint8_t *>(instruction);
    const std::uint8_t *next = *at == 0xc4 ? run_vex(u, at) : *at == 0x62 ? run_evex(u, at) : nullptr;
    if (next) return void(instruction = reinterpret_cast<greg_t>(next));
    std::fprintf(stderr, "illegal instruction, not emulated:");
    for (int n = 0; n < 12; n++) std::fprintf(stderr, " %02x%s", at[n], n == 11 ? "\n" : "");
    sigaction(SIGILL, &before, nullptr);  // on return the instruction faults again, in the former handler
}

}  // namespace detail

// Emulates AMX as long as it lives; one at a time. Test frameworks set handlers around each test: construct it inside.
class Emulation {
public:
    Emulation() {
        struct sigaction action = {};
        action.sa_sigaction = detail::on_illegal_instruction;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGILL, &action, &detail::before);
    }
    ~Emulation() { sigaction(SIGILL, &detail::before, nullptr); }
    Emulation(const Emulation &) = delete;
};

}  // namespace amx
