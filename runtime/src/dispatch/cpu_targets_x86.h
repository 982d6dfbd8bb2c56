// SPDX-License-Identifier: MIT
// Targets of x86-64, the most specific first. Part of cpu_features.cpp.
#pragma once
#include "dispatch/cpu_target.h"
#include <atomic>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace attune {
namespace {

// find(), called by the first who asks. Every choice of a variant asks for features. No static object that is initialised here:
// its guard would be a lock. Threads that come at the same time all call.
template<bool (*find)()> bool once() {
    enum { unknown, yes, no };
    static std::atomic<int> found{unknown};
    if (found == unknown) found = find() ? yes : no;
    return found == yes;
}

// Linux gives a process the state of AMX tiles only once it asks for it (and to all its threads from then on).
bool permit_tiles() {
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

// A bit of CPUID, for features whose names __builtin_cpu_supports() of clang 14 lacks. Whether the operating system saves their
// registers, the features beside them ask: avx2, avx512f, and the permission for tiles. In a virtual machine the instruction
// leaves the guest: 8 microseconds on a Zen 5 under KVM.
enum Register { eax, ebx, ecx, edx };
template<unsigned leaf, unsigned subleaf, Register which, unsigned bit> bool read_cpuid() {
    unsigned r[4] = {};
    return __get_cpuid_count(leaf, subleaf, &r[eax], &r[ebx], &r[ecx], &r[edx]) != 0 && (r[which] >> bit & 1) != 0;
}
template<unsigned leaf, unsigned subleaf, Register which, unsigned bit>
constexpr auto in_cpuid = once<read_cpuid<leaf, subleaf, which, bit>>;

#define ATTUNE_FEATURE(name) \
    Feature { \
        name, [] { return __builtin_cpu_supports(name) != 0; } \
    }

// Everything that code generation may use once Halide names the CPU to LLVM, not only the feature in the target's name.
// The compiler's builtin also asks the operating system whether it saves the registers.
constexpr Feature avx2[] = {ATTUNE_FEATURE("avx2"),
                            ATTUNE_FEATURE("fma"),
                            Feature{"f16c", in_cpuid<1, 0, ecx, 29>},
                            ATTUNE_FEATURE("bmi"),
                            ATTUNE_FEATURE("bmi2"),
                            Feature{"lzcnt", in_cpuid<0x80000001, 0, ecx, 5>},
                            Feature{"movbe", in_cpuid<1, 0, ecx, 22>}};
constexpr Feature avx_vnni = {"avxvnni", in_cpuid<7, 1, eax, 4>};
constexpr Feature avx512[] = {ATTUNE_FEATURE("avx512f"), ATTUNE_FEATURE("avx512cd"), ATTUNE_FEATURE("avx512bw"),
                              ATTUNE_FEATURE("avx512dq"), ATTUNE_FEATURE("avx512vl")};
constexpr Feature icelake[] = {ATTUNE_FEATURE("avx512ifma"),   ATTUNE_FEATURE("avx512vbmi"),
                               ATTUNE_FEATURE("avx512vbmi2"),  ATTUNE_FEATURE("avx512vnni"),
                               ATTUNE_FEATURE("avx512bitalg"), ATTUNE_FEATURE("avx512vpopcntdq"),
                               ATTUNE_FEATURE("gfni"),         Feature{"vaes", in_cpuid<7, 0, ecx, 9>},
                               ATTUNE_FEATURE("vpclmulqdq")};
constexpr Feature bf16[] = {ATTUNE_FEATURE("avx512bf16")};
constexpr Feature amd[] = {ATTUNE_FEATURE("sse4a")};
// Without its direct stores (movdiri, movdir64b), which virtual machines hide and only intrinsics make code of.
constexpr Feature zen5[] = {avx_vnni, ATTUNE_FEATURE("avx512vp2intersect")};
constexpr Feature sapphirerapids[] = {avx_vnni,
                                      {"amx-tile", in_cpuid<7, 0, edx, 24>},
                                      {"amx-bf16", in_cpuid<7, 0, edx, 22>},
                                      {"amx-int8", in_cpuid<7, 0, edx, 25>},
                                      {"avx512fp16", in_cpuid<7, 0, edx, 23>},
                                      {"permission to use amx tiles (arch_prctl)", once<permit_tiles>}};
#undef ATTUNE_FEATURE

constexpr Features needs_avx2[] = {avx2};
constexpr Features needs_avx512[] = {avx2, avx512};
constexpr Features needs_zen4[] = {avx2, avx512, icelake, bf16, amd};
constexpr Features needs_zen5[] = {avx2, avx512, icelake, bf16, amd, zen5};
constexpr Features needs_sapphirerapids[] = {avx2, avx512, icelake, bf16, sapphirerapids};
constexpr CpuTarget cpu_targets_here[] = {{"sapphirerapids", needs_sapphirerapids},
                                          {"zen5", needs_zen5},
                                          {"zen4", needs_zen4},
                                          {"avx512", needs_avx512},
                                          {"avx2", needs_avx2},
                                          {"generic", {}}};

}  // namespace
}  // namespace attune
