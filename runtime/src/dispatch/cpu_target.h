// SPDX-License-Identifier: MIT
// Tables of the targets of an architecture and the features that each needs: cpu_targets_x86.h, cpu_targets_aarch64.h.
#pragma once
#include <span>

namespace attune {

// A feature of CPUs, by the name in messages, and whether this machine has it.
struct Feature {
    const char *name;
    bool (*found)();
};
using Features = std::span<const Feature>;
// A target of schedules/targets.json and the features that its kernels need.
struct CpuTarget {
    const char *name;
    std::span<const Features> needs;
};

}  // namespace attune
