// SPDX-License-Identifier: MIT
// One call of linear or batch_dot as data: extents and layout, random arrays for it, and its check.
#pragma once
#include "attune/attune.h"
#include "tests/reference/linear_reference.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include <sstream>
#include <string>

namespace attune_test {

// Orders: dense; rows with gaps; reversed rows; leading dimensions swapped, as heads are in a (B, S, H, D) array
enum class Order { dense, padded, reversed, swapped };

inline std::vector<std::int64_t> strides_of(Order order, const std::vector<std::int64_t> &extents) {
    const std::size_t rank = extents.size();
    std::vector<std::int64_t> strides(rank, 1);
    std::int64_t step = extents.back();
    if (order == Order::padded) step += 3;
    for (std::size_t n = 1; n < rank; n++) {
        const std::size_t dim = order == Order::swapped ? n - 1 : rank - 1 - n;
        strides[dim] = order == Order::reversed ? -step : step;
        step = step * extents[dim] + (order == Order::padded ? 5 : 0);
    }
    return strides;
}
template<typename T> Array<T> array_of(Order order, const std::vector<std::int64_t> &extents) {
    return Array<T>(extents, strides_of(order, extents));
}

struct LinearCase {
    std::vector<std::int64_t> leading = {5};  // of x and out; for batch_dot all but the rows are a batch
    std::int64_t columns = 7, depth = 9;
    bool bias = true;
    bool packed = false;  // the weight of linear
    Order order = Order::dense;
    double spread = 1;
    unsigned seed = 1;
};

inline std::string describe(const LinearCase &c) {
    std::ostringstream s;
    s << "leading";
    for (std::int64_t n : c.leading) s << ' ' << n;
    s << " columns " << c.columns << " depth " << c.depth << (c.bias ? " bias" : "") << (c.packed ? " packed" : "") << " order "
      << int(c.order) << " seed " << c.seed;
    return s.str();
}

inline std::vector<std::int64_t> with(std::vector<std::int64_t> extents, std::initializer_list<std::int64_t> more) {
    extents.insert(extents.end(), more);
    return extents;
}

// Arrays of out = x weight^T + bias, or of out = x weight for each entry, with the weight as (..., K, N).
template<typename T> struct LinearArrays {
    LinearCase c;
    bool batched;
    Array<T> x, weight, bias, out, packed;

    explicit LinearArrays(const LinearCase &c, bool batched = false) : c(c), batched(batched) {
        std::vector<std::int64_t> entries = c.leading;
        if (batched) entries.pop_back();
        x = array_of<T>(c.order, with(c.leading, {c.depth}));
        weight =
            batched ? array_of<T>(c.order, with(entries, {c.depth, c.columns})) : array_of<T>(c.order, {c.columns, c.depth});
        bias = array_of<T>(Order::dense, {c.columns});
        out = array_of<T>(c.order, with(c.leading, {c.columns}));
        std::mt19937 random(c.seed);
        for (Array<T> *a : {&x, &weight, &bias}) a->randomise(random, c.spread);
    }
    attune::ConstView bias_view() { return c.bias && !batched ? attune::ConstView(bias.view()) : attune::ConstView(); }
    // The weight, packed if the case says so, with its present elements.
    attune::ConstView weight_view(attune::Context &context) {
        if (!c.packed) return weight.view();
        const auto [panels, depth, width] = attune::packed_weight_extents(attune::dtype_of<T>(), c.columns, c.depth);
        packed = array_of<T>(Order::dense, {panels, depth, width});
        const attune::Status status = attune::pack_linear_weight(context, weight.view(), packed.view());
        INFO(status.message());
        REQUIRE(status.ok());
        return packed.view();
    }
    attune::Status run(attune::Context &context, std::string_view variant = {}) {
        if (batched) return attune::batch_dot(context, x.view(), weight.view(), out.view(), {.variant = variant});
        return attune::linear(context, x.view(), weight_view(context), bias_view(), out.view(), {.variant = variant});
    }
    template<typename Real, typename Stored = Real> std::vector<Real> reference() {
        return batched ? batch_dot_reference<Real, T, Stored>(x.view(), weight.view()).data
                       : linear_reference<Real, T, Stored>(x.view(), weight.view(), bias_view()).data;
    }
};

// Fault of the result, empty if there is none; `ratio` becomes the error over its bound.
template<typename T> std::string defect(LinearArrays<T> &a, double *ratio = nullptr) {
    if (!a.out.gaps_untouched()) return "out was written outside its elements";
    if (!a.out.all_written()) return "out has elements that were not written";
    const std::vector<T> result = a.out.values();
    const Verdict verdict = judge(a.template reference<Reference<T>>(), a.template reference<Sum<T>, T>(), result);
    if (ratio) *ratio = verdict.ratio;
    return verdict.right ? std::string() : verdict.why;
}

template<typename T>
void check_case(attune::Context &context, const LinearCase &c, bool batched, std::string_view variant = {}) {
    LinearArrays<T> a(c, batched);
    INFO((batched ? "batch_dot " : "linear ") << describe(c));
    const attune::Status status = a.run(context, variant);
    INFO(status.message());
    REQUIRE(status.ok());
    CHECK(defect(a) == "");
}

}  // namespace attune_test
