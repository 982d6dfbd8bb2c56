// Arrays beside pages that must not be touched: one element read or written beyond them is a crash.
#pragma once
#include "tests/support/catch.h"
#include <algorithm>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace attune_test {

// Dense elements with an inaccessible page right before the first or right after the last.
template<typename T> class Fenced {
public:
    Fenced(const std::vector<T> &values, bool at_end) {
        const std::size_t page = std::size_t(sysconf(_SC_PAGESIZE)), bytes = values.size() * sizeof(T);
        const std::size_t inside = (bytes + page - 1) / page * page;
        size_ = inside + 2 * page;
        base_ = static_cast<char *>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        REQUIRE(base_ != MAP_FAILED);
        REQUIRE(mprotect(base_ + page, inside, PROT_READ | PROT_WRITE) == 0);
        data_ = reinterpret_cast<T *>(base_ + page + (at_end ? inside - bytes : 0));
        std::copy(values.begin(), values.end(), data_);
        count_ = values.size();
    }
    ~Fenced() { munmap(base_, size_); }
    Fenced(const Fenced &) = delete;
    Fenced &operator=(const Fenced &) = delete;
    T *data() { return data_; }
    std::vector<T> values() { return {data_, data_ + count_}; }

private:
    char *base_ = nullptr;
    T *data_ = nullptr;
    std::size_t size_ = 0, count_ = 0;
};

}  // namespace attune_test
