// SPDX-License-Identifier: MIT
// The default floating-point state during a call, on AArch64. Part of float_state.h.
#pragma once
#include <cstdint>

namespace attune {

// See float_state.h. FPCR holds the rounding mode, flush-to-zero and trap masks, FPSR the exception flags. Where the caller's
// FPCR is the default one, the cost is a read of each register, and a second read of FPSR at the end.
class DefaultFloatState {
public:
    DefaultFloatState() noexcept {
        asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(fpcr_), "=r"(fpsr_) : : "memory");
        if (fpcr_ != default_fpcr) asm volatile("msr fpcr, %0" : : "r"(default_fpcr) : "memory");
    }
    ~DefaultFloatState() {
        std::uint64_t now;
        asm volatile("mrs %0, fpsr" : "=r"(now) : : "memory");
        if (now != fpsr_) asm volatile("msr fpsr, %0" : : "r"(fpsr_) : "memory");
        if (fpcr_ != default_fpcr) asm volatile("msr fpcr, %0" : : "r"(fpcr_) : "memory");
    }
    DefaultFloatState(const DefaultFloatState &) = delete;

private:
    static constexpr std::uint64_t default_fpcr = 0;

    std::uint64_t fpcr_, fpsr_;
};

}  // namespace attune
