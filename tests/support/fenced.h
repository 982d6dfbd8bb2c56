// SPDX-License-Identifier: MIT
// Memory beside protected pages: an access one element beyond it is a crash.
#pragma once
#include <cstddef>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <type_traits>
#include <unistd.h>
#include <vector>

namespace attune_test {

// Side of the block on which a protected page begins at once; on the other side there is one, too, behind the rest of a page.
enum class Fence { none, before, behind };

struct FencedBlock {
    std::size_t page = std::size_t(sysconf(_SC_PAGESIZE)), inside;
    explicit FencedBlock(std::size_t bytes) : inside((bytes + page - 1) / page * page) {}
    std::size_t size() const { return inside + 2 * page; }
};
inline void *allocate_fenced(std::size_t bytes, Fence fence) {
    const FencedBlock block(bytes);
    void *const base = mmap(nullptr, block.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::bad_alloc();
    char *const first = static_cast<char *>(base) + block.page;
    if (block.inside > 0 && mprotect(first, block.inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    return first + (fence == Fence::behind ? block.inside - bytes : 0);
}
inline void release_fenced(void *data, std::size_t bytes, Fence fence) noexcept {
    const FencedBlock block(bytes);
    munmap(static_cast<char *>(data) - block.page - (fence == Fence::behind ? block.inside - bytes : 0), block.size());
}

// Fence of the arrays (array.h) that are made next.
inline Fence fence_of_arrays = Fence::none;
struct FencedArrays {
    explicit FencedArrays(Fence fence) { fence_of_arrays = fence; }
    ~FencedArrays() { fence_of_arrays = Fence::none; }
    FencedArrays(const FencedArrays &) = delete;
};

template<typename T> struct FencedAllocator {
    using value_type = T;
    using propagate_on_container_copy_assignment = std::true_type;
    using propagate_on_container_move_assignment = std::true_type;
    using propagate_on_container_swap = std::true_type;

    Fence fence = fence_of_arrays;
    FencedAllocator() = default;
    explicit FencedAllocator(Fence f) : fence(f) {}
    template<typename Other> FencedAllocator(const FencedAllocator<Other> &other) : fence(other.fence) {}

    T *allocate(std::size_t n) {
        if (fence == Fence::none) return std::allocator<T>().allocate(n);
        return static_cast<T *>(allocate_fenced(n * sizeof(T), fence));
    }
    void deallocate(T *data, std::size_t n) noexcept {
        if (fence == Fence::none) return std::allocator<T>().deallocate(data, n);
        release_fenced(data, n * sizeof(T), fence);
    }
    bool operator==(const FencedAllocator &) const = default;
};

// Dense elements with a protected page right before the first or right after the last.
template<typename T> class Fenced {
public:
    Fenced(const std::vector<T> &values, bool at_end)
        : data_(values.begin(), values.end(), FencedAllocator<T>(at_end ? Fence::behind : Fence::before)) {}
    Fenced(const Fenced &) = delete;
    Fenced &operator=(const Fenced &) = delete;
    T *data() { return data_.data(); }
    std::vector<T> values() { return {data_.begin(), data_.end()}; }

private:
    std::vector<T, FencedAllocator<T>> data_;
};

}  // namespace attune_test
