// SPDX-License-Identifier: MIT
// Which targets of schedules/targets.json this CPU runs. Used by dispatch, and by CMake to find the native target.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace attune {

// The most specific first.
std::span<const char *const> cpu_targets() noexcept;

// The features that this machine lacks for a target, such as "avx512f avx512bw"; empty if it runs here.
std::string missing_for(std::string_view target);
// Whether there are none, without asking for memory.
bool nothing_missing_for(std::string_view target) noexcept;

}  // namespace attune
