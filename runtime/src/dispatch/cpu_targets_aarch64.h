// SPDX-License-Identifier: MIT
// Targets of AArch64, the most specific first. Part of cpu_features.cpp.
#pragma once
#include "dispatch/cpu_target.h"
#include <sys/auxv.h>

namespace attune {
namespace {

// A bit of AT_HWCAP or AT_HWCAP2, by which the kernel says what the CPU has (Linux, Documentation/arch/arm64/elf_hwcaps.rst).
// The C library's header with their names may be older than the kernel.
template<unsigned long word, unsigned bit> bool in_hwcap() { return (getauxval(word) >> bit & 1) != 0; }

constexpr Feature neon[] = {{"asimd", in_hwcap<AT_HWCAP, 1>}};
// Dot products of bytes, and f16 arithmetic, with which Halide converts f16 by instructions.
constexpr Feature dot[] = {
    {"asimddp", in_hwcap<AT_HWCAP, 20>}, {"fphp", in_hwcap<AT_HWCAP, 9>}, {"asimdhp", in_hwcap<AT_HWCAP, 10>}};
// Halide names bf16 by Armv8.6-A: everything below it that LLVM chooses by itself. What Armv8.5-A adds is chosen by intrinsics
// alone, and Neoverse V1 lacks some of these features.
constexpr Feature bf16[] = {{"atomics", in_hwcap<AT_HWCAP, 8>}, {"asimdrdm", in_hwcap<AT_HWCAP, 12>},
                            {"jscvt", in_hwcap<AT_HWCAP, 13>},  {"fcma", in_hwcap<AT_HWCAP, 14>},
                            {"lrcpc", in_hwcap<AT_HWCAP, 15>},  {"flagm", in_hwcap<AT_HWCAP, 27>},
                            {"i8mm", in_hwcap<AT_HWCAP2, 13>},  {"bf16", in_hwcap<AT_HWCAP2, 14>}};

constexpr Features needs_arm64[] = {neon};
constexpr Features needs_arm64_dot[] = {neon, dot};
constexpr Features needs_arm64_bf16[] = {neon, dot, bf16};
constexpr CpuTarget cpu_targets_here[] = {
    {"arm64_bf16", needs_arm64_bf16}, {"arm64_dot", needs_arm64_dot}, {"arm64", needs_arm64}, {"generic", {}}};

}  // namespace
}  // namespace attune
