// SPDX-License-Identifier: MIT
// The instruction of a busy-waiting loop, which leaves the core's resources to its other thread for some tens of cycles.
#pragma once

namespace attune {

inline void cpu_pause() noexcept {
#if defined(__aarch64__)
    // AArch64's own hint, yield, does nothing on cores with one thread. The barrier stalls about as long as pause of x86-64.
    asm volatile("isb" : : : "memory");
#else
    __builtin_ia32_pause();
#endif
}

}  // namespace attune
