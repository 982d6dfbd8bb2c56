// SPDX-License-Identifier: MIT
// Memory of the measured tensors, mapped directly: freeing a large block of malloc's would raise glibc's trim threshold, and
// every kernel timed later would find a warmer allocator than in a plain program. A protected page lies before the first page
// and one behind the last.
#pragma once
#include "tests/support/fenced.h"
#include <cstddef>

namespace bench {

class MappedArray {
public:
    MappedArray() = default;
    explicit MappedArray(std::size_t bytes) : size_(bytes) {
        if (bytes == 0) return;
        data_ = attune_test::allocate_fenced(bytes, attune_test::Fence::before);
    }
    ~MappedArray() {
        if (data_) attune_test::release_fenced(data_, size_, attune_test::Fence::before);
    }
    MappedArray(MappedArray &&other) noexcept : data_(other.data_), size_(other.size_) {
        other.data_ = nullptr, other.size_ = 0;
    }
    MappedArray &operator=(MappedArray &&other) noexcept {
        void *const d = data_;
        const std::size_t s = size_;
        data_ = other.data_, size_ = other.size_, other.data_ = d, other.size_ = s;
        return *this;
    }

    template<typename T> T *as() const { return static_cast<T *>(data_); }
    std::size_t bytes() const { return size_; }

private:
    void *data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace bench
