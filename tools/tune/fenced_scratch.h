// SPDX-License-Identifier: MIT
// An attune::Allocator whose blocks end at a page that must not be touched and hold what the gate says: memory that a kernel
// reads before it wrote it gives other results from call to call.
#pragma once
#include "attune/context.h"
#include <cstddef>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace attune::tune {

class FencedScratch {
public:
    FencedScratch() = default;
    ~FencedScratch();
    FencedScratch(const FencedScratch &) = delete;

    unsigned char fill = 0xff;   // 0xff: NaN in every type. Set between calls only
    std::string defect() const;  // what was done against the rules so far, empty if nothing
    attune::Allocator hook();

private:
    void *allocate(std::size_t bytes, std::size_t alignment);
    void release(void *block, std::size_t bytes);

    std::mutex mutex_;
    std::map<void *, std::size_t> live_;       // bytes that were asked for
    std::multimap<std::size_t, void *> free_;  // by the bytes of the block
    std::string defect_;
};

}  // namespace attune::tune
