// An attune::Allocator that counts, fills what it gives, checks what comes back, and can refuse one request.
#pragma once
#include "attune/context.h"
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace attune_test {

class CountingAllocator {
public:
    // Set between calls only.
    unsigned char fill = 0xff;  // a NaN in either type
    int requests = 0;           // since it was last set to 0
    int fail_at = -1;           // the request that is refused, counted from 0

    std::size_t live = 0, peak = 0;  // bytes
    int defects = 0;                 // requests or releases against the rules

    attune::Allocator hook() {
        return {
            [](void *self, std::size_t bytes, std::size_t alignment) {
                return static_cast<CountingAllocator *>(self)->allocate(bytes, alignment);
            },
            [](void *self, void *block, std::size_t bytes) { static_cast<CountingAllocator *>(self)->release(block, bytes); },
            this};
    }

private:
    std::mutex mutex_;
    std::map<void *, std::size_t> blocks_;

    void *allocate(std::size_t bytes, std::size_t alignment) {
        const std::lock_guard lock(mutex_);
        if (requests++ == fail_at) return nullptr;
        void *block = nullptr;
        const bool power = alignment >= sizeof(void *) && (alignment & (alignment - 1)) == 0;
        if (!power || bytes == 0 || posix_memalign(&block, alignment, bytes) != 0) return defects++, nullptr;
        std::memset(block, fill, bytes);
        blocks_[block] = bytes;
        live += bytes, peak = std::max(peak, live);
        return block;
    }
    void release(void *block, std::size_t bytes) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(block);
        if (found == blocks_.end() || found->second != bytes) return void(defects++);
        live -= bytes;
        blocks_.erase(found);
        std::free(block);
    }
};

}  // namespace attune_test
