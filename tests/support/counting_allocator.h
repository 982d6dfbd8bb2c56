// SPDX-License-Identifier: MIT
// An attune::Allocator that counts, fills its blocks, checks releases, and can refuse one request.
#pragma once
#include "attune/context.h"
#include "tests/support/catch.h"
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

namespace attune_test {

class CountingAllocator {
public:
    // Members below are set between calls only.
    unsigned char fill = 0xff;     // a NaN in either type
    int requests = 0;              // requests since the last reset to 0
    int fail_at = -1;              // number of the refused request, from 0
    std::size_t limit = SIZE_MAX;  // most live bytes; requests beyond are refused

    std::size_t live = 0, peak = 0;  // bytes
    int defects = 0;                 // requests or releases against the rules
    int refused = 0;                 // requests beyond the limit

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
        if (bytes > limit - std::min(live, limit)) return refused++, nullptr;
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

// Calls run() with one request refused, until no request is left: each of the first ones, then every so many, because later
// requests come from tasks that repeat those of the first (their number depends on the threads). Each failure is an
// out_of_memory with a message and gives all memory back; after() follows each call.
template<typename Run, typename After>
void refuse_requests(CountingAllocator &allocator, int one_by_one, const Run &run, const After &after) {
    int failed = 0;
    bool succeeded = false;
    for (int n = 0; n < 1 << 20 && !succeeded; n += n < one_by_one ? 1 : n / 4) {
        allocator.requests = 0, allocator.fail_at = n;
        const attune::Status status = run();
        allocator.fail_at = -1;
        succeeded = status.ok();
        INFO("request " << n << ": " << status.message());
        if (!succeeded) {
            failed++;
            CHECK(status.code() == attune::StatusCode::out_of_memory);
            CHECK(!status.message().empty());
            CHECK(allocator.live == 0);
        }
        after();
    }
    CHECK(failed > 0);
    CHECK(succeeded);
}

}  // namespace attune_test
