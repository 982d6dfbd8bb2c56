// SPDX-License-Identifier: MIT
// Scratch memory that shows accesses beyond it: a protected page begins where a block ends or, for every other block, ends
// where the block begins. Blocks are full of NaN, and none is kept for a later request, which might not end with it.
#pragma once
#include "attune/context.h"
#include "tests/support/fenced.h"
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

namespace attune_test {

class FencedScratch {
public:
    attune::Allocator hook() {
        return {[](void *self, std::size_t bytes, std::size_t) { return static_cast<FencedScratch *>(self)->allocate(bytes); },
                [](void *self, void *block, std::size_t bytes) { static_cast<FencedScratch *>(self)->release(block, bytes); },
                this};
    }

private:
    // Pages with a fence on both sides, mapped once for many blocks: a kernel asks for blocks in every task.
    struct Pages {
        void *first;
        std::size_t bytes;
    };
    static constexpr std::size_t most_unused = std::size_t(64) << 20;

    std::mutex mutex_;
    std::multimap<std::size_t, void *> unused_;
    std::size_t unused_bytes_ = 0;
    std::map<void *, std::pair<Pages, std::size_t>> blocks_;
    bool at_end_ = false;

    Pages pages(std::size_t bytes) {
        bytes = FencedBlock(bytes).inside;
        const auto found = unused_.find(bytes);
        if (found == unused_.end()) return {allocate_fenced(bytes, Fence::before), bytes};
        const Pages p{found->second, bytes};
        unused_.erase(found), unused_bytes_ -= bytes;
        return p;
    }
    // Sizes are multiples of the alignment, so a block that ends with a page is aligned, too.
    void *allocate(std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        const Pages p = pages(bytes);
        at_end_ = !at_end_;
        void *const block = static_cast<char *>(p.first) + (at_end_ ? p.bytes - bytes : 0);
        std::memset(block, 0xff, bytes);  // a NaN in every type
        blocks_[block] = {p, bytes};
        return block;
    }
    void release(void *block, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(block);
        if (found == blocks_.end() || found->second.second != bytes) std::abort();  // its size was overwritten
        const Pages p = found->second.first;
        blocks_.erase(found);
        if (unused_bytes_ + p.bytes > most_unused) return release_fenced(p.first, p.bytes, Fence::before);
        unused_.emplace(p.bytes, p.first), unused_bytes_ += p.bytes;
    }
};

// Options of a Context whose kernels use fenced scratch.
inline attune::ContextOptions in_fenced_scratch(int threads = 2) {
    static FencedScratch scratch;
    return {.threads = threads, .scratch_bytes_per_thread = 0, .allocator = scratch.hook()};
}

}  // namespace attune_test
