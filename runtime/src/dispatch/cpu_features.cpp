// SPDX-License-Identifier: MIT
#include "dispatch/cpu_features.h"
#include <array>
#include <iterator>
#if defined(__aarch64__)
#include "dispatch/cpu_targets_aarch64.h"
#elif defined(__x86_64__)
#include "dispatch/cpu_targets_x86.h"
#else
#error "attune has no targets for this architecture: schedules/targets.json"
#endif

namespace attune {
namespace {

constexpr auto names = [] {
    std::array<const char *, std::size(cpu_targets_here)> all{};
    for (std::size_t n = 0; n < all.size(); n++) all[n] = cpu_targets_here[n].name;
    return all;
}();

// Calls missing(name) for each feature that this machine lacks for a target; false if there is no such target.
template<typename Missing> bool each_missing(std::string_view target, const Missing &missing) {
    for (const CpuTarget &t : cpu_targets_here) {
        if (target != t.name) continue;
        for (Features features : t.needs)
            for (const Feature &f : features)
                if (!f.found()) missing(f.name);
        return true;
    }
    return false;
}

}  // namespace

std::span<const char *const> cpu_targets() noexcept { return names; }

std::string missing_for(std::string_view target) {
    std::string missing;
    const bool known =
        each_missing(target, [&](const char *feature) { missing.append(missing.empty() ? "" : " ").append(feature); });
    return known ? missing : std::string("a known target: there is no ").append(target);
}

bool nothing_missing_for(std::string_view target) noexcept {
    bool nothing = true;
    const bool known = each_missing(target, [&](const char *) { nothing = false; });
    return known && nothing;
}

}  // namespace attune
