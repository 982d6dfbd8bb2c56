// SPDX-License-Identifier: MIT
// Scratch full of subnormal numbers, which shows whether kernels compute with elements that they have not written: x86-64 then
// raises the flag of a subnormal operand. An Intel core takes some 150 cycles for each such instruction, so that padding which
// is never stored, but computed, makes a call twenty times as slow or not, by what scratch held before.
#pragma once
#include "attune/context.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace attune_test {

class SubnormalScratch {
public:
#if defined(__x86_64__)
    static constexpr bool sees = true;
#else
    static constexpr bool sees = false;
#endif
    // For one thread: flags are those of the calling one.
    attune::ContextOptions options() {
        return {.threads = 1, .scratch_bytes_per_thread = 0, .allocator = {allocate, release, this}};
    }
    // Forgets subnormal operands of earlier calls, and clears the floating-point exception flags of the thread.
    void clear() {
        seen_ = false;
#if defined(__x86_64__)
        _mm_setcsr(_mm_getcsr() & ~0x3fu);
#endif
    }
    // Whether an operand was subnormal in a call since clear(). A call restores its caller's flags at its end, so they are read
    // where it gives scratch back.
    bool seen() const { return seen_; }

private:
    static void *allocate(void *, std::size_t bytes, std::size_t alignment) {
        void *const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        if (!block) return nullptr;
        constexpr unsigned char subnormal[] = {4, 0, 4, 0, 4, 0, 4, 0};  // in every type
        for (std::size_t at = 0; at < bytes; at += sizeof(subnormal))
            std::memcpy(static_cast<char *>(block) + at, subnormal, std::min(sizeof(subnormal), bytes - at));
        return block;
    }
    static void release(void *self, void *block, std::size_t) {
#if defined(__x86_64__)
        constexpr unsigned subnormal_operand = 2;
        static_cast<SubnormalScratch *>(self)->seen_ |= (_mm_getcsr() & subnormal_operand) != 0;
#endif
        std::free(block);
    }
    bool seen_ = false;
};

}  // namespace attune_test
