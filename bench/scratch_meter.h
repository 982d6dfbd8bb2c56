// SPDX-License-Identifier: MIT
// An attune::Allocator that counts: the default one, with the peak of scratch in use.
#pragma once
#include "attune/context.h"
#include <atomic>
#include <cstdlib>

namespace bench {

class ScratchMeter {
public:
    attune::Allocator hook() { return {allocate, release, this}; }
    void start() { peak_ = live_.load(); }
    std::size_t peak() const { return peak_; }

private:
    static void *allocate(void *self, std::size_t bytes, std::size_t alignment) {
        void *const block = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
        if (!block) return nullptr;
        auto &meter = *static_cast<ScratchMeter *>(self);
        const std::size_t live = meter.live_ += bytes;
        for (std::size_t peak = meter.peak_; live > peak && !meter.peak_.compare_exchange_weak(peak, live);) {}
        return block;
    }
    static void release(void *self, void *block, std::size_t bytes) {
        static_cast<ScratchMeter *>(self)->live_ -= bytes;
        std::free(block);
    }

    std::atomic<std::size_t> live_ = 0, peak_ = 0;
};

}  // namespace bench
