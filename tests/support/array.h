// SPDX-License-Identifier: MIT
// Arrays of any memory layout, with poison around them: storage that is no element of the array (between rows, before and after
// it) holds a NaN, or for integers a large number, which must stay. Beside a fence (fenced.h) there is no storage before and
// after the array.
#pragma once
#include "tests/support/fenced.h"
#include "tests/support/half_elements.h"
#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace attune_test {

// Layouts of (B, H, S, D). All but dense stand for a use in practice.
enum class Layout {
    dense,
    bshd,       // (B, S, H, D) in memory
    padded,     // rows, heads and batch entries with gaps between them
    fused,      // a slice of a (B, S, 3, H, D) array
    shifted,    // dense, one element off the alignment of the allocation
    reversed,   // negative strides
    broadcast,  // one head for all, stride 0; inputs only
};
inline const char *name_of(Layout layout) {
    constexpr const char *names[] = {"dense", "bshd", "padded", "fused", "shifted", "reversed", "broadcast"};
    return names[static_cast<int>(layout)];
}

inline std::vector<std::int64_t> strides_of(Layout layout, std::int64_t h, std::int64_t s, std::int64_t d) {
    const std::int64_t row = d + 3, head = s * row + 5;
    switch (layout) {
    case Layout::bshd: return {s * h * d, d, h * d, 1};
    case Layout::padded: return {h * head + 7, head, row, 1};
    case Layout::fused: return {s * 3 * h * d, d, 3 * h * d, 1};
    case Layout::reversed: return {-h * s * d, -s * d, -d, 1};
    case Layout::broadcast: return {s * d, 0, d, 1};
    default: return {h * s * d, s * d, d, 1};
    }
}

// Two NaNs that no computation makes: their payloads tell an untouched element from a computed NaN.
template<typename T> T poison(int which) {
    if constexpr (std::is_same_v<T, float>)
        return std::bit_cast<float>(0x7fc0a000u + std::uint32_t(which));
    else if constexpr (std::is_same_v<T, double>)
        return std::bit_cast<double>(0x7ff8a00000000000ull + std::uint64_t(which));
    else if constexpr (std::is_same_v<T, BFloat16>)
        return BFloat16::of_bits(std::uint16_t(0x7fe4 + which));
    else if constexpr (std::is_same_v<T, Float16>)
        return Float16::of_bits(std::uint16_t(0x7ea0 + which));
    else if constexpr (sizeof(T) == 1)
        return T(0xa0 + which);
    else
        return T(1000000 + which);
}
template<typename T> bool same_bits(const T &a, const T &b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }
template<typename T> bool same_bits(const std::vector<T> &a, const std::vector<T> &b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// Dense strides for extents of any rank.
inline std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t> &extents) {
    std::vector<std::int64_t> strides(extents.size());
    std::int64_t dense = 1;
    for (std::size_t n = extents.size(); n-- > 0;) strides[n] = dense, dense *= extents[n];
    return strides;
}

// Cache of drawn values by the generator's state: tests draw the same arrays again, for each variant, context and repeat.
template<typename T> class Drawn {
public:
    // The next values of the generator, uniform in +-spread, which also advances it.
    const std::vector<T> &next(std::mt19937 &random, double spread, std::size_t count) {
        for (const Entry &e : entries_) {
            if (e.values.size() != count || e.spread != spread || e.before != random) continue;
            random = e.after;
            return e.values;
        }
        Entry &e = entries_[oldest_++ % std::size(entries_)];
        e.before = random, e.spread = spread;
        e.values.resize(count);
        // The values of std::uniform_real_distribution of libstdc++, bit for bit, but without long double.
        for (T &x : e.values) {
            const double low = std::uint32_t(random()), high = std::uint32_t(random());
            const double unit = std::min((low + high * 0x1p32) * 0x1p-64, 1 - 0x1p-53);
            x = T(unit * (spread + spread) - spread);
        }
        e.after = random;
        return e.values;
    }

private:
    struct Entry {
        std::mt19937 before, after;
        double spread = 0;
        std::vector<T> values;
    };
    Entry entries_[16];
    std::size_t oldest_ = 0;
};

template<typename T> class Array {
    // Stored type: a byte where T is bool: a vector of bool has no data(), and another value shows an unwritten element.
    using Stored = std::conditional_t<std::is_same_v<T, bool>, unsigned char, T>;

public:
    Array() = default;
    explicit Array(std::vector<std::int64_t> extents) : Array(extents, dense_strides(extents)) {}
    Array(std::vector<std::int64_t> extents, std::vector<std::int64_t> strides, Stored fill = poison<Stored>(1),
          std::int64_t shift = 0)
        : extents_(std::move(extents)), strides_(std::move(strides)), fill_(fill) {
        std::int64_t low = 0, high = 0;
        for (std::size_t n = 0; n < extents_.size(); n++) {
            if (extents_[n] == 0) {
                low = high = 0;
                break;
            }
            (strides_[n] < 0 ? low : high) += strides_[n] * (extents_[n] - 1);
        }
        const std::int64_t guard = storage_.get_allocator().fence == Fence::none ? 64 : 0;
        origin_ = guard + shift - low;
        storage_.assign(std::size_t(2 * guard + shift + high - low + 1), fill);
    }
    Array(std::initializer_list<std::int64_t> bhsd, Layout layout, Stored fill = poison<Stored>(1))
        : Array(std::vector(bhsd), strides_of(layout, bhsd.begin()[1], bhsd.begin()[2], bhsd.begin()[3]), fill,
                layout == Layout::shifted ? 1 : 0) {}

    T *data() { return reinterpret_cast<T *>(storage_.data()) + origin_; }
    T &operator()(std::int64_t b, std::int64_t h, std::int64_t s, std::int64_t d) {
        return data()[b * strides_[0] + h * strides_[1] + s * strides_[2] + d * strides_[3]];
    }
    T &operator()(std::int64_t b, std::int64_t h, std::int64_t s) {
        return data()[b * strides_[0] + h * strides_[1] + s * strides_[2]];
    }
    attune::View view() {
        attune::View v;
        v.data = data(), v.dtype = attune::dtype_of<T>(), v.rank = int(extents_.size());
        for (std::size_t n = 0; n < extents_.size(); n++) v.extent[n] = extents_[n], v.stride[n] = strides_[n];
        return v;
    }

    // All of the storage, as bytes.
    std::span<const std::byte> bytes() const { return std::as_bytes(std::span(storage_)); }
    // Restores the fill, as before anything was written.
    void forget() { std::fill(storage_.begin(), storage_.end(), fill_); }

    // Calls f with each element, in logical order.
    template<typename F> void each(const F &f) {
        if (!storage_.empty()) each(f, 0, 0);
    }

    // Draws all elements, uniform in +-spread, with variance spread^2 / 3.
    void randomise(std::mt19937 &random, double spread) {
        thread_local Drawn<T> drawn;
        std::size_t count = 1;
        for (const std::int64_t extent : extents_) count *= std::size_t(extent);
        if (count == 0) return;
        auto next = drawn.next(random, spread, count).begin();
        each([&](T &x) { x = *next++; });
    }
    std::vector<T> values() {
        std::vector<T> all;
        each([&](T &x) { all.push_back(x); });
        return all;
    }
    bool all_written() {
        bool written = true;
        each([&](T &x) { written = written && std::memcmp(&x, &fill_, sizeof(T)) != 0; });
        return written;
    }
    bool gaps_untouched() {
        std::vector<char> inside(storage_.size());
        each([&](T &x) { inside[std::size_t(&x - reinterpret_cast<T *>(storage_.data()))] = 1; });
        for (std::size_t n = 0; n < storage_.size(); n++)
            if (!inside[n] && !same_bits(storage_[n], fill_)) return false;
        return true;
    }
    bool untouched() const {
        for (const Stored &x : storage_)
            if (!same_bits(x, fill_)) return false;
        return true;
    }

private:
    std::vector<std::int64_t> extents_, strides_;
    Stored fill_{};
    std::int64_t origin_ = 0;
    std::vector<Stored, FencedAllocator<Stored>> storage_;

    template<typename F> void each(const F &f, std::size_t dim, std::int64_t at) {
        if (extents_.empty()) return void(f(data()[at]));
        T *const row = data() + at;
        const std::int64_t extent = extents_[dim], stride = strides_[dim];
        if (dim + 1 == extents_.size())
            for (std::int64_t n = 0; n < extent; n++) f(row[n * stride]);
        else
            for (std::int64_t n = 0; n < extent; n++) each(f, dim + 1, at + n * stride);
    }
};

}  // namespace attune_test
