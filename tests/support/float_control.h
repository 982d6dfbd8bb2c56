// SPDX-License-Identifier: MIT
// Registers of the floating-point state by architecture, and states that a caller may have set in them.
#pragma once
#include <array>
#include <cfenv>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attune_test {

// `control` are bits of MXCSR on x86-64 and of FPCR on AArch64, `flags` those of fenv.h to raise first.
struct FloatState {
    const char *name;
    unsigned long control;
    int rounding = FE_TONEAREST, traps = 0, flags = 0;
};

#if defined(__x86_64__)
constexpr unsigned long all_traps_masked = 0x1f80, all_float_flags = 0x3f, flush_to_zero = 0x8000, denormals_are_zero = 0x40;
constexpr unsigned long default_control = all_traps_masked;
inline const FloatState float_states[] = {
    {"flush to zero", all_traps_masked | flush_to_zero},
    {"denormals are zero, upward", all_traps_masked | denormals_are_zero, FE_UPWARD},
    {"downward, some flags", all_traps_masked | 0x9, FE_DOWNWARD},
    {"toward zero, every trap", all_traps_masked, FE_TOWARDZERO, FE_ALL_EXCEPT},
    {"every trap and denormals' too, every flag", all_float_flags},
};
// MXCSR, and the control and status of the x87 unit.
inline std::array<unsigned long, 2> float_registers() {
    unsigned short control, status;
    asm volatile("fnstcw %0\n\tfnstsw %1" : "=m"(control), "=m"(status));
    return {_mm_getcsr(), control | static_cast<unsigned long>(status) << 16};
}
// Sets all but the rounding mode.
inline void set_float_control(unsigned long control) {
    _mm_setcsr(static_cast<unsigned>((_mm_getcsr() & ~(all_traps_masked | all_float_flags)) | control));
}
inline bool has_default_control() { return (_mm_getcsr() & ~all_float_flags) == default_control; }
#elif defined(__aarch64__)
constexpr unsigned long flush_to_zero = 1UL << 24, rounding_bits = 3UL << 22, default_control = 0;
inline const FloatState float_states[] = {
    {"flush to zero", flush_to_zero},
    {"flush to zero, upward", flush_to_zero, FE_UPWARD},
    {"downward, some flags", 0, FE_DOWNWARD, 0, FE_INEXACT | FE_OVERFLOW},
    {"toward zero, every trap that the CPU has", 0, FE_TOWARDZERO, FE_ALL_EXCEPT},
};
// FPCR and FPSR.
inline std::array<unsigned long, 2> float_registers() {
    unsigned long fpcr, fpsr;
    asm volatile("mrs %0, fpcr\n\tmrs %1, fpsr" : "=r"(fpcr), "=r"(fpsr) : : "memory");
    return {fpcr, fpsr};
}
// Sets all but the rounding mode.
inline void set_float_control(unsigned long control) {
    const unsigned long fpcr = (float_registers()[0] & rounding_bits) | control;
    asm volatile("msr fpcr, %0" : : "r"(fpcr) : "memory");
}
inline bool has_default_control() { return float_registers()[0] == default_control; }
#endif

// Scope with a floating-point state of this thread. Arithmetic within must not raise exceptions that it traps.
class CallersFloatState {
public:
    explicit CallersFloatState(const FloatState &state) {
        std::fegetenv(&before_);
        std::fesetround(state.rounding);
        set_float_control(state.control);
        if (state.flags) std::feraiseexcept(state.flags);
        if (state.traps) feenableexcept(state.traps);  // AArch64 CPUs may have none
    }
    ~CallersFloatState() { std::fesetenv(&before_); }

private:
    std::fenv_t before_;
};

}  // namespace attune_test
