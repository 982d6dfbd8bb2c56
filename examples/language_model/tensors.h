// SPDX-License-Identifier: MIT
// Memory of rows, and failures: the library reports a Status, this program throws.
#pragma once
#include <attune/attune.h>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

namespace language_model {

struct Failure : std::runtime_error {
    using std::runtime_error::runtime_error;
};

inline void require(const attune::Status &status) {
    if (!status.ok()) throw Failure(status.message());
}

// An array whose memory is aligned to a cache line. It grows, and then keeps no contents.
class Array {
public:
    Array() = default;
    Array(attune::DType type, const attune::Dims &extents) { resize(type, extents); }

    void resize(attune::DType type, const attune::Dims &extents) {
        std::size_t bytes = std::size_t(attune::size_of(type));
        for (int n = 0; n < extents.rank(); n++) bytes *= std::size_t(extents[n]);
        if (bytes > capacity_) {
            memory_.reset();
            memory_.reset(static_cast<char *>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
            if (!memory_) throw std::bad_alloc();
            capacity_ = bytes;
        }
        type_ = type, extents_ = extents, bytes_ = bytes;
    }

    template<typename T> T *as() const { return reinterpret_cast<T *>(memory_.get()); }
    attune::DType type() const { return type_; }
    std::size_t bytes() const { return bytes_; }
    attune::View view() const { return view_at(0, extents_, {}); }

    // A part of the array: elements from `first` on, in other extents; without strides they are dense.
    attune::View view_at(std::int64_t first, const attune::Dims &extents, const attune::Dims &strides) const {
        attune::View view = strides.rank() ? attune::View(as<float>(), extents, strides) : attune::View(as<float>(), extents);
        view.dtype = type_;
        view.data = memory_.get() + first * attune::size_of(type_);
        return view;
    }

private:
    struct Free {
        void operator()(char *memory) const { std::free(memory); }
    };
    std::unique_ptr<char, Free> memory_;
    std::size_t capacity_ = 0, bytes_ = 0;
    attune::DType type_ = attune::DType::f32;
    attune::Dims extents_;
};

}  // namespace language_model
