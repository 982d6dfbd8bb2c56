// SPDX-License-Identifier: MIT
// Captures of a formula as arguments of a call of the attention with that formula.
#pragma once
#include "attune/detail/user_attention.h"
#include "tests/reference/elements.h"
#include "tests/user_attention/formulas.h"
#include <cstdint>
#include <utility>
#include <vector>

namespace attune_test {

template<typename T> class FormulaCaptures {
public:
    FormulaCaptures(const attune::detail::AttentionRecord &record, GivenCaptures given, attune::Place place)
        : record_(record), given_(std::move(given)), place_(place) {
        for (const GivenCapture &c : given_) {
            integers_.emplace_back(c.values.begin(), c.values.end());
            booleans_.emplace_back(c.values.begin(), c.values.end());
        }
    }
    // Elements of all captures in the type of the scores, as the reference takes them.
    static Captured<Sum<T>> numbers(const GivenCaptures &all) {
        Captured<Sum<T>> c;
        for (const GivenCapture &of : all) c.emplace_back(of.values.begin(), of.values.end());
        return c;
    }
    // floats: numbers(), which the arguments point into.
    std::vector<attune::detail::CaptureArgument> arguments(const Captured<Sum<T>> &floats) const {
        std::vector<attune::detail::CaptureArgument> all;
        for (std::size_t n = 0; n < given_.size(); n++) {
            const attune::detail::CaptureRecord &c = record_.captures[n];
            if (c.rank == 0) {
                all.push_back({{}, given_[n].values[0]});
                continue;
            }
            const attune::DType type = c.of_scores ? attune::dtype_of<Sum<T>>() : c.dtype;
            const void *data = type == attune::DType::i32       ? static_cast<const void *>(integers_[n].data())
                               : type == attune::DType::boolean ? static_cast<const void *>(booleans_[n].data())
                                                                : floats[n].data();
            all.push_back({shaped<const void>(data, type, given_[n].shape), {}});
        }
        return all;
    }
    // Captures that have a gradient.
    std::vector<std::size_t> wanted() const {
        std::vector<std::size_t> all;
        for (std::size_t n = 0; n < record_.captures.size(); n++)
            if (record_.captures[n].has_gradient) all.push_back(n);
        return all;
    }
    std::vector<attune::View> gradients(Captured<Sum<T>> &floats, const std::vector<std::size_t> &wanted) const {
        std::vector<attune::View> all(given_.size());
        for (const std::size_t n : wanted) all[n] = shaped<void>(floats[n].data(), attune::dtype_of<Sum<T>>(), given_[n].shape);
        return all;
    }

private:
    const attune::detail::AttentionRecord &record_;
    GivenCaptures given_;
    attune::Place place_;
    std::vector<std::vector<std::int32_t>> integers_;
    std::vector<std::vector<unsigned char>> booleans_;

    template<typename Data>
    attune::BasicView<Data> shaped(Data *data, attune::DType type, const std::vector<Index> &shape) const {
        attune::BasicView<Data> v;
        v.data = data, v.dtype = type, v.rank = int(shape.size()), v.place = place_;
        std::int64_t stride = 1;
        for (int n = v.rank - 1; n >= 0; n--) v.extent[n] = shape[std::size_t(n)], v.stride[n] = stride, stride *= v.extent[n];
        return v;
    }
};

}  // namespace attune_test
