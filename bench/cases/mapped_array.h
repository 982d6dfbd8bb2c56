// Memory of the measured tensors, straight from the system: freeing a large block of malloc's would raise glibc's trim
// threshold, and every kernel timed after it would find a warmer allocator than a plain program does.
#pragma once
#include <cstddef>
#include <new>
#include <sys/mman.h>

namespace bench {

class MappedArray {
public:
    MappedArray() = default;
    explicit MappedArray(std::size_t bytes) : size_(bytes) {
        if (bytes == 0) return;
        data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data_ == MAP_FAILED) data_ = nullptr, throw std::bad_alloc();
    }
    ~MappedArray() {
        if (data_) munmap(data_, size_);
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
