// SPDX-License-Identifier: MIT
// Targets of AArch64, the most specific first. Part of cpu_features.cpp.
#pragma once
#include "dispatch/cpu_target.h"
#include <sys/auxv.h>

namespace attune {
namespace {

// Bits of AT_HWCAP, by which the kernel says what the CPU has (Linux, Documentation/arch/arm64/elf_hwcaps.rst). The C library's
// header with their names may be older than the kernel.
constexpr unsigned long hwcap_asimd = 1UL << 1;

constexpr Feature neon[] = {{"asimd", [] { return (getauxval(AT_HWCAP) & hwcap_asimd) != 0; }}};
constexpr Features needs_arm64[] = {neon};
constexpr CpuTarget cpu_targets_here[] = {{"arm64", needs_arm64}, {"generic", {}}};

}  // namespace
}  // namespace attune
