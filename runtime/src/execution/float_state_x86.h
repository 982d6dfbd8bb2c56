// SPDX-License-Identifier: MIT
// The default floating-point state during a call, on x86-64. Part of float_state.h.
#pragma once
#include <cstdint>

namespace attune {

// See float_state.h. MXCSR is the state of SSE and AVX; the x87 unit computes long double. Where the caller's state is the
// default one, the cost is two reads of MXCSR, and a write where the call has raised a flag.
class DefaultFloatState {
public:
    DefaultFloatState() noexcept {
        asm volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr_), "=m"(x87_control_) : : "memory");
        if ((mxcsr_ & ~mxcsr_flags) != default_mxcsr) set_mxcsr(default_mxcsr);
        if (x87_control_ == default_x87_control) return;
        asm volatile("fnstenv %0" : "=m"(x87_) : : "memory");  // the caller's flags, too; masks all traps
        asm volatile("fldcw %0" : : "m"(default_x87_control) : "memory");
    }
    ~DefaultFloatState() {
        std::uint32_t now;
        asm volatile("stmxcsr %0" : "=m"(now) : : "memory");
        if (now != mxcsr_) set_mxcsr(mxcsr_);
        if (x87_control_ != default_x87_control) asm volatile("fldenv %0" : : "m"(x87_) : "memory");
    }
    DefaultFloatState(const DefaultFloatState &) = delete;

private:
    static constexpr std::uint32_t mxcsr_flags = 0x3f, default_mxcsr = 0x1f80;
    static constexpr std::uint16_t default_x87_control = 0x37f;
    struct X87Environment {
        std::uint32_t words[7];
    };
    static void set_mxcsr(std::uint32_t to) noexcept { asm volatile("ldmxcsr %0" : : "m"(to) : "memory"); }

    std::uint32_t mxcsr_;
    std::uint16_t x87_control_;
    X87Environment x87_;
};

}  // namespace attune
