// SPDX-License-Identifier: MIT
// The arguments of one call of a kernel. kernel_arguments.h, which is made when the library is built, has a struct of them for
// each generator; every member must be given, in its order, and a number must have the type that the kernel reads.
#pragma once
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>
#include <vector>

struct halide_buffer_t;

namespace attune {

class BufferArgument {
public:
    BufferArgument(halide_buffer_t *buffer) : buffer_(buffer) {}
    BufferArgument(std::nullptr_t) = delete;

private:
    friend class ArgumentList;
    halide_buffer_t *buffer_;
};

template<typename Number> class NumberArgument {
public:
    template<std::same_as<Number> Given> NumberArgument(Given number) : number_(number) {}

private:
    friend class ArgumentList;
    Number number_;
};

// The captures of a user's attention, each a buffer or a number, in their order; none for attention of the library.
class CaptureList {
public:
    CaptureList(std::span<void *const> captures) : captures_(captures) {}

private:
    friend class ArgumentList;
    std::span<void *const> captures_;
};

// Pointers to arguments, which must outlive it, in the order of the kernel. The first is the user context, which call_kernel()
// sets.
class ArgumentList {
public:
    ArgumentList() {
        pointers_.reserve(usual);
        pointers_.push_back(nullptr);
    }
    ArgumentList(const ArgumentList &) = delete;
    ArgumentList &operator=(const ArgumentList &) = delete;

    template<typename... Arguments> void add(const Arguments &...arguments) { (append(arguments), ...); }
    void **data() { return pointers_.data(); }

private:
    static constexpr std::size_t usual = 64;  // of more captures than any attention has had: on the heap
    alignas(void *) std::array<std::byte, usual * sizeof(void *)> memory_;
    std::pmr::monotonic_buffer_resource resource_{memory_.data(), memory_.size()};
    std::pmr::vector<void *> pointers_ = std::pmr::vector<void *>(&resource_);  // braces would make it an element

    void append(const BufferArgument &a) { pointers_.push_back(a.buffer_); }
    template<typename Number> void append(const NumberArgument<Number> &a) {
        pointers_.push_back(const_cast<Number *>(&a.number_));  // kernels only read it
    }
    void append(const CaptureList &a) { pointers_.insert(pointers_.end(), a.captures_.begin(), a.captures_.end()); }
};

}  // namespace attune
