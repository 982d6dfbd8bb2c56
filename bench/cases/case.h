// SPDX-License-Identifier: MIT
// A shape's tensors, the timed call, and a check of its outputs against a wider type, on a sample of rows.
#pragma once
#include "attune/context.h"
#include "machine.h"
#include "mapped_array.h"
#include "shapes.h"
#include "tests/support/error_rule.h"
#include "tests/support/half_elements.h"
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace bench {

using Row = std::array<std::int64_t, 3>;  // batch entry, head, query

struct Region {
    const char *name;
    Bytes bytes;
};

// Reference of the sampled rows, one row after another, one list per output: in the next wider type, by the plain computation,
// and the size of the terms of which a result is a difference.
struct Expected {
    std::vector<std::vector<long double>> wide, plain, sizes;
};

class Case {
public:
    virtual ~Case() = default;

    const Shape &shape() const { return shape_; }
    virtual attune::Status call(attune::Context &, std::string_view variant) const = 0;  // empty: dispatch
    // Operands that a decode step must read at least once.
    virtual std::vector<Bytes> operands() const { return {}; }
    virtual std::vector<Region> inputs() const = 0;
    std::vector<Region> outputs() const;

    // Sets outputs to NaN before a call that is checked, so that unwritten rows show.
    void forget_output();
    // Judges the sampled rows by the rule of the tests (tests/support/error_rule.h).
    attune_test::Verdict judge_output();
    // Fault of the outputs; empty if they are right.
    std::string check_output();

    // Enlarges the sample to as many rows as the reference computes in about so many operations: all, or those where tiles of
    // queries begin and end, and random ones. Without this call the sample has some 30 rows.
    void sample(double operations, std::int64_t tile);
    // Reference of the sample; computed once, or given by a caller that kept it.
    const Expected &expected();
    void expect(Expected);
    std::size_t sampled_rows() const { return rows_.size(); }

protected:
    // The sample is taken over batch entries, `heads` and queries.
    Case(const Shape &, std::int64_t heads);
    Case(const Case &) = delete;
    Case &operator=(const Case &) = delete;

    // Adds an output (b, heads, q, width), or of other extents; output() is a view of this array. Rows are checked in the order
    // in which outputs are added; for other extents the row in the relative place of the sampled one.
    const MappedArray &add_output(const char *name, std::int64_t width, attune::DType);
    const MappedArray &add_output(const char *name, const Row &extents, std::int64_t width, attune::DType);
    Row row_of(std::size_t output, const Row &) const;
    attune::View output(std::size_t n) const;

    // Reference of each output's row, one after the other, computed in the type of the shape's sums or in the next wider one.
    // For 16-bit types the rule itself rounds the plain ones.
    virtual void row(const Row &, bool wide, std::vector<long double> &out) const = 0;
    // Operations of a reference row.
    virtual double row_operations() const;
    // Sizes of the terms of results that are differences; the floor is a share of them.
    virtual void sizes(const Row &, std::vector<long double> &) const {}
    // An error that the op's documentation allows in addition to the rule.
    virtual double documented_error() const { return 0; }

private:
    struct Output {
        const char *name;
        Row extents;
        std::int64_t width;
        attune::DType dtype;
        MappedArray data;
    };
    template<typename T> attune_test::Verdict judge_as(std::size_t output) const;
    attune_test::Verdict judge_output(std::size_t output) const;
    std::int64_t place(const Output &, const Row &) const;

    Shape shape_;
    std::int64_t heads_;
    std::vector<std::unique_ptr<Output>> outputs_;
    std::vector<Row> rows_;
    Expected expected_;  // filled by the first check
};

inline Region region(const char *name, const MappedArray &array) { return {name, {array.as<char>(), array.bytes()}}; }

std::unique_ptr<Case> make_case(const Shape &);
// Families of cases, for make_case().
std::unique_ptr<Case> make_attention_case(const Shape &);
std::unique_ptr<Case> make_backward_case(const Shape &);
std::unique_ptr<Case> make_packed_case(const Shape &);
std::unique_ptr<Case> make_layer_case(const Shape &);
std::unique_ptr<Case> make_linear_backward_case(const Shape &);

using attune_test::BFloat16;
using attune_test::Float16;
using attune_test::is_half;
using attune_test::Sum;

// Fills an array uniformly in [-1, 1), by a generator that takes little time for hundreds of megabytes.
template<typename T> void fill(const MappedArray &array, std::uint64_t seed) {
    T *const x = array.as<T>();
    for (std::size_t n = 0; n < array.bytes() / sizeof(T); n++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[n] = static_cast<T>(static_cast<Sum<T>>(static_cast<std::int32_t>(seed >> 32)) *
                              static_cast<Sum<T>>(1.0 / 2147483648.0));
    }
}

// An input filled with fill().
template<typename T> struct Filled : MappedArray {
    Filled(std::int64_t elements, std::uint64_t seed) : MappedArray(static_cast<std::size_t>(elements) * sizeof(T)) {
        fill<T>(*this, seed);
    }
    T *data() const { return as<T>(); }
};

template<typename T> struct WiderOf { using Type = double; };
template<> struct WiderOf<double> { using Type = long double; };
template<typename T> using Wider = typename WiderOf<T>::Type;

// A case for the element type of a shape.
template<template<typename> typename SomeCase> std::unique_ptr<Case> case_of_wide_type(const Shape &s) {
    if (s.dtype == attune::DType::f64) return std::make_unique<SomeCase<double>>(s);
    return std::make_unique<SomeCase<float>>(s);
}
template<template<typename> typename SomeCase> std::unique_ptr<Case> case_of_type(const Shape &s) {
    if (s.dtype == attune::DType::bf16) return std::make_unique<SomeCase<BFloat16>>(s);
    if (s.dtype == attune::DType::f16) return std::make_unique<SomeCase<Float16>>(s);
    return case_of_wide_type<SomeCase>(s);
}

}  // namespace bench
