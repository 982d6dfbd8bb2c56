// SPDX-License-Identifier: MIT
// An attune::Allocator whose blocks end at a protected page and are filled as the gate asks: a kernel that reads memory before
// it has written it gives other results from call to call.
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

    unsigned char fill = 0xff;   // 0xff: NaN in every type; set between calls only
    std::string defect() const;  // first misuse so far, empty if there is none
    attune::Allocator hook();

private:
    void *allocate(std::size_t bytes, std::size_t alignment);
    void release(void *block, std::size_t bytes);

    std::mutex mutex_;
    std::map<void *, std::size_t> live_;       // requested bytes
    std::multimap<std::size_t, void *> free_;  // by size
    std::string defect_;
};

}  // namespace attune::tune
