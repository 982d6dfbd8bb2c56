// SPDX-License-Identifier: MIT
// A shape's tensors, the call that is timed, and a check of what it wrote against a wider type, on a sample of rows.
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

// What an output ought to be on the sampled rows, one row after another: in the next wider type, as the plain computation has
// it, and how large that is of which it is a difference. A list an output.
struct Expected {
    std::vector<std::vector<long double>> wide, plain, sizes;
};

class Case {
public:
    virtual ~Case() = default;

    const Shape &shape() const { return shape_; }
    virtual attune::Status call(attune::Context &, std::string_view variant) const = 0;  // empty: dispatch
    // What a decode step must read at least.
    virtual std::vector<Bytes> operands() const { return {}; }
    virtual std::vector<Region> inputs() const = 0;
    std::vector<Region> outputs() const;

    // Before a call whose output is to be checked: NaN everywhere, so that rows which are not written show.
    void forget_output();
    // The rule of the tests (tests/support/error_rule.h) on the sampled rows.
    attune_test::Verdict judge_output();
    // Empty if the outputs are right, else what is wrong.
    std::string check_output();

    // Takes as many rows into the sample as can be defined in about so many operations: all, or those where tiles of queries
    // begin and end, and others anywhere. Without it the sample is some 30 rows.
    void sample(double operations, std::int64_t tile);
    // Of the sample; computed once, or given by whoever kept it.
    const Expected &expected();
    void expect(Expected);
    std::size_t sampled_rows() const { return rows_.size(); }

protected:
    // Rows are sampled over batch entries, `heads` and queries.
    Case(const Shape &, std::int64_t heads);
    Case(const Case &) = delete;
    Case &operator=(const Case &) = delete;

    // An output (b, heads, q, width), or of other extents, and a view of it. Its rows are checked in the order in which outputs
    // are added; of other extents that one which stands where the sampled row does.
    const MappedArray &add_output(const char *name, std::int64_t width, attune::DType);
    const MappedArray &add_output(const char *name, const Row &extents, std::int64_t width, attune::DType);
    Row row_of(std::size_t output, const Row &) const;
    attune::View output(std::size_t n) const;

    // The definition of each output's row, one after the other, computed in the type of the shape's sums or in the next wider
    // one. Of 16 bits the rule rounds the plain ones itself.
    virtual void row(const Row &, bool wide, std::vector<long double> &out) const = 0;
    // Operations of that.
    virtual double row_operations() const;
    // Where a result is a difference of what is larger: how large that is. The floor is a share of it.
    virtual void sizes(const Row &, std::vector<long double> &) const {}
    // An error that the op's documentation allows beside the rule.
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
// The families of make_case().
std::unique_ptr<Case> make_attention_case(const Shape &);
std::unique_ptr<Case> make_backward_case(const Shape &);
std::unique_ptr<Case> make_packed_case(const Shape &);
std::unique_ptr<Case> make_layer_case(const Shape &);
std::unique_ptr<Case> make_linear_backward_case(const Shape &);

using attune_test::BFloat16;
using attune_test::Float16;
using attune_test::is_half;
using attune_test::Sum;

// Uniform in [-1, 1), by a generator that fills hundreds of megabytes in no time.
template<typename T> void fill(const MappedArray &array, std::uint64_t seed) {
    T *const x = array.as<T>();
    for (std::size_t n = 0; n < array.bytes() / sizeof(T); n++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[n] = static_cast<T>(static_cast<Sum<T>>(static_cast<std::int32_t>(seed >> 32)) *
                              static_cast<Sum<T>>(1.0 / 2147483648.0));
    }
}

// An input that is filled like that.
template<typename T> struct Filled : MappedArray {
    Filled(std::int64_t elements, std::uint64_t seed) : MappedArray(static_cast<std::size_t>(elements) * sizeof(T)) {
        fill<T>(*this, seed);
    }
    T *data() const { return as<T>(); }
};

template<typename T> struct WiderOf { using Type = double; };
template<> struct WiderOf<double> { using Type = long double; };
template<typename T> using Wider = typename WiderOf<T>::Type;

// A case for the type of a shape's elements.
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
