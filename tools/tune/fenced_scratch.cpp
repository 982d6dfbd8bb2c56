// SPDX-License-Identifier: MIT
// Blocks of scratch memory beside protected pages.
#include "fenced_scratch.h"
#include "tests/support/fenced.h"
#include <cstring>

namespace attune::tune {
namespace {

using attune_test::Fence;

// Bytes rounded up to the alignment, so that the protected page begins right behind the block.
std::size_t whole(std::size_t bytes, std::size_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }
constexpr std::size_t most_alignment = 128;

}  // namespace

attune::Allocator FencedScratch::hook() {
    return {[](void *self, std::size_t bytes, std::size_t alignment) {
                return static_cast<FencedScratch *>(self)->allocate(bytes, alignment);
            },
            [](void *self, void *block, std::size_t bytes) { static_cast<FencedScratch *>(self)->release(block, bytes); },
            this};
}

FencedScratch::~FencedScratch() {
    for (const auto &[bytes, block] : free_) attune_test::release_fenced(block, bytes, Fence::behind);
}

std::string FencedScratch::defect() const {
    return live_.empty() || !defect_.empty() ? defect_
                                             : "scratch memory: " + std::to_string(live_.size()) + " blocks were kept";
}

void *FencedScratch::allocate(std::size_t bytes, std::size_t alignment) {
    if (alignment > most_alignment) return nullptr;
    const std::size_t size = whole(bytes, most_alignment);
    void *block = nullptr;
    {
        const std::lock_guard lock(mutex_);
        if (const auto found = free_.find(size); found != free_.end()) block = found->second, free_.erase(found);
    }
    if (!block) {
        try {
            block = attune_test::allocate_fenced(size, Fence::behind);
        } catch (const std::bad_alloc &) {
            return nullptr;
        }
    }
    std::memset(block, fill, size);
    const std::lock_guard lock(mutex_);
    live_[block] = bytes;
    return block;
}

void FencedScratch::release(void *block, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto found = live_.find(block);
    if (found == live_.end() || found->second != bytes) {
        defect_ = "scratch memory: the words before a block were written";
        if (found == live_.end()) return;
    }
    free_.emplace(whole(found->second, most_alignment), block);
    live_.erase(found);
}

}  // namespace attune::tune
