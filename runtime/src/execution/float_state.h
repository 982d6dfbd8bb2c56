// SPDX-License-Identifier: MIT
// DefaultFloatState: the default floating-point state during a call, whatever the caller's thread has set.
//
// Scope in which its thread has the ABI's initial floating-point state: rounding to nearest, subnormal numbers kept, no
// exception traps. At its end the caller's state is restored, exception flags included: a call raises none and clears none.
// Results must not depend on fesetround(), feenableexcept(), or the flush-to-zero that a library compiled with -ffast-math
// sets.
#pragma once
#if defined(__aarch64__)
#include "execution/float_state_aarch64.h"
#else
#include "execution/float_state_x86.h"
#endif
