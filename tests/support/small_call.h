// SPDX-License-Identifier: MIT
// A small call of some function on tensors of f32, with every view that it takes. Outputs hold a pattern, so that writes of a
// refused call show.
#pragma once
#include <algorithm>
#include <attune/attune.h>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

namespace attune_test {

struct SmallSizes {
    std::int64_t batch = 2, heads = 4, key_heads = 2, queries = 5, keys = 6, dim = 4, value_dim = 3;
};

class SmallCall {
public:
    explicit SmallCall(std::string called) : name(std::move(called)) {}
    virtual ~SmallCall() = default;
    SmallCall(const SmallCall &) = delete;
    virtual attune::Status run(attune::Context &) = 0;
    // The variant's name in the call's options; null where it takes none.
    virtual std::string_view *variant() { return nullptr; }

    const std::string name;
    std::vector<attune::ConstView *> inputs;
    std::vector<attune::View *> outputs;

    bool untouched() const {
        return std::all_of(written_.begin(), written_.end(), [](const std::vector<char> &m) {
            return std::all_of(m.begin(), m.end(), [](char c) { return c == pattern; });
        });
    }
    // Contents of all outputs and of the memory around them.
    const std::deque<std::vector<char>> &written() const { return written_; }

protected:
    using Extents = std::vector<std::int64_t>;
    void input(attune::ConstView &v, const Extents &extents, double shift = 0) {
        std::vector<float> &m = floats_.emplace_back(count(extents));
        for (float &x : m) x = float(shift) + float((state_ = state_ * 1103515245 + 12345) >> 16 & 1023) / 1024 - 0.5f;
        place(v, m.data(), attune::DType::f32, extents);
        inputs.push_back(&v);
    }
    void integers(attune::ConstView &v, const Extents &extents, std::int32_t each) {
        place(v, integers_.emplace_back(count(extents), each).data(), attune::DType::i32, extents);
        inputs.push_back(&v);
    }
    // A length: all keys but one, where there are two.
    static std::int32_t length(const SmallSizes &s) { return std::int32_t(s.keys > 1 ? s.keys - 1 : s.keys); }
    void mask(attune::ConstView &v, const Extents &extents) {
        place(v, masks_.emplace_back(count(extents), char(1)).data(), attune::DType::boolean, extents);
        inputs.push_back(&v);
    }
    void output(attune::View &v, const Extents &extents, attune::DType type = attune::DType::f32) {
        constexpr std::size_t guard = 64;
        const std::size_t bytes = count(extents) * std::size_t(attune::size_of(type));
        place(v, written_.emplace_back(bytes + 2 * guard, pattern).data() + guard, type, extents);
        outputs.push_back(&v);
    }

private:
    static constexpr char pattern = 0x5a;
    static std::size_t count(const Extents &extents) {
        std::size_t n = 1;
        for (std::int64_t e : extents) n *= std::size_t(e);
        return n;
    }
    template<typename V, typename Data> static void place(V &v, Data *data, attune::DType type, const Extents &extents) {
        v.data = data, v.dtype = type, v.rank = int(extents.size());
        std::int64_t dense = 1;
        for (std::size_t n = extents.size(); n-- > 0; dense *= extents[n]) v.extent[n] = extents[n], v.stride[n] = dense;
    }
    std::uint32_t state_ = 7;
    std::deque<std::vector<float>> floats_;
    std::deque<std::vector<std::int32_t>> integers_;
    std::deque<std::vector<char>> masks_, written_;
};

}  // namespace attune_test
