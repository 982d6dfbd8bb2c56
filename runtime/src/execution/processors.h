// SPDX-License-Identifier: MIT
// The processors that this process may use, and its share of their time.
#pragma once
#include "attune/context.h"
#include <string>

namespace attune {

// Processors that the calling thread may run on, which can be fewer than the machine has.
int usable_cores() noexcept;

// CPU quota that control groups (cgroups) grant this process, in processors, such as 1.5; 0: none. It is the least quota of the
// process's group and its ancestors (cpu.max of version 2, cpu.cfs_quota_us over cpu.cfs_period_us of version 1). Files are
// read below `root`, "" but in tests: <root>/proc/self/cgroup, <root>/proc/self/mountinfo, and where cgroups are mounted.
double cpu_quota(const std::string &root);

// The least of `processors`, `quota` rounded up, and most_threads.
constexpr int most_threads = 1024;
DefaultThreads default_threads(int processors, double quota) noexcept;

}  // namespace attune
