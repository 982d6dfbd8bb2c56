// SPDX-License-Identifier: MIT
// The sample of rows, and their reference.
#include "case.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <set>

namespace bench {
namespace {

template<typename T> void fill_with_nan(const MappedArray &array) {
    std::fill_n(array.as<T>(), array.bytes() / sizeof(T), std::numeric_limits<T>::quiet_NaN());
}

}  // namespace

Case::Case(const Shape &shape, std::int64_t heads) : shape_(shape), heads_(heads) {
    // The corners, where tiles and masks end, and some random rows.
    for (std::int64_t i : {std::int64_t(0), shape.q / 2, shape.q - 1})
        rows_.push_back({0, 0, i}), rows_.push_back({shape.b - 1, heads - 1, i});
    std::mt19937 random(1);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    for (int n = 0; n < 26; n++) rows_.push_back({below(shape.b), below(heads), below(shape.q)});
}

void Case::sample(double operations, std::int64_t tile) {
    const Shape &s = shape_;
    // Each row is computed in the wider type and in the type itself, without vectors.
    const auto most = static_cast<std::int64_t>(operations / std::max(1.0, 2 * row_operations()));
    std::set<Row> rows(rows_.begin(), rows_.end());
    std::mt19937 random(2);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    const bool all = most >= s.b * heads_ * s.q;
    for (std::int64_t e = 0; all && e < s.b; e++)
        for (std::int64_t h = 0; h < heads_; h++)
            for (std::int64_t i = 0; i < s.q; i++) rows.insert({e, h, i});
    for (std::int64_t i = 0; !all && i < s.q; i++)
        if (i % tile == 0 || (i + 1) % tile == 0) rows.insert({below(s.b), below(heads_), i});
    while (static_cast<std::int64_t>(rows.size()) < std::min(most, s.b * heads_ * s.q))
        rows.insert({below(s.b), below(heads_), below(s.q)});
    rows_.assign(rows.begin(), rows.end());
    expected_ = {};
}

double Case::row_operations() const {
    const double of_unit = shape_.unit() == std::string_view("tanh") ? 20 : 1;
    return of_unit * shape_.work() / static_cast<double>(shape_.b * heads_ * shape_.q);
}

const MappedArray &Case::add_output(const char *name, std::int64_t width, attune::DType dtype) {
    return add_output(name, {shape_.b, heads_, shape_.q}, width, dtype);
}

const MappedArray &Case::add_output(const char *name, const Row &extents, std::int64_t width, attune::DType dtype) {
    const auto bytes = static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * width * attune::size_of(dtype));
    outputs_.push_back(std::make_unique<Output>(Output{name, extents, width, dtype, MappedArray(bytes)}));
    return outputs_.back()->data;
}

attune::View Case::output(std::size_t n) const {
    const Output &o = *outputs_[n];
    attune::View view(o.data.as<float>(), {o.extents[0], o.extents[1], o.extents[2], o.width});
    view.dtype = o.dtype;
    return view;
}

std::vector<Region> Case::outputs() const {
    std::vector<Region> all;
    for (const auto &o : outputs_) all.push_back(region(o->name, o->data));
    return all;
}

Row Case::row_of(std::size_t output, const Row &row) const {
    const Row of = {shape_.b, heads_, shape_.q}, &to = outputs_[output]->extents;
    Row there;
    for (std::size_t n = 0; n < 3; n++) there[n] = row[n] + 1 == of[n] ? to[n] - 1 : row[n] * to[n] / of[n];
    return there;
}

void Case::forget_output() {
    for (const auto &o : outputs_) {
        switch (o->dtype) {
        case attune::DType::f64: fill_with_nan<double>(o->data); break;
        case attune::DType::f32: fill_with_nan<float>(o->data); break;
        case attune::DType::bf16: fill_with_nan<BFloat16>(o->data); break;
        case attune::DType::f16: fill_with_nan<Float16>(o->data); break;
        default: std::fill_n(o->data.as<unsigned char>(), o->data.bytes(), static_cast<unsigned char>(2));  // no value of bool
        }
    }
}

std::int64_t Case::place(const Output &o, const Row &row) const {
    return ((row[0] * o.extents[1] + row[1]) * o.extents[2] + row[2]) * o.width;
}

const Expected &Case::expected() {
    if (!expected_.wide.empty()) return expected_;
    const std::size_t count = outputs_.size();
    expected_ = {std::vector<std::vector<long double>>(count), std::vector<std::vector<long double>>(count),
                 std::vector<std::vector<long double>>(count)};
    std::vector<long double> wide, plain, size;
    for (const Row &r : rows_) {
        wide.clear(), plain.clear(), size.clear();
        row(r, true, wide);
        row(r, false, plain);
        sizes(r, size);
        if (size.empty()) size = wide;
        for (std::size_t n = 0, at = 0; n < count; at += static_cast<std::size_t>(outputs_[n++]->width)) {
            const auto add = [&](std::vector<long double> &to, const std::vector<long double> &from) {
                const auto first = from.begin() + static_cast<std::ptrdiff_t>(at);
                to.insert(to.end(), first, first + outputs_[n]->width);
            };
            add(expected_.wide[n], wide), add(expected_.plain[n], plain), add(expected_.sizes[n], size);
        }
    }
    return expected_;
}

void Case::expect(Expected expected) { expected_ = std::move(expected); }

template<typename T> attune_test::Verdict Case::judge_as(std::size_t output) const {
    const Output &o = *outputs_[output];
    std::vector<T> got;
    for (const Row &r : rows_) {
        const T *const row = o.data.as<T>() + place(o, row_of(output, r));
        got.insert(got.end(), row, row + o.width);
    }
    const std::vector<long double> &wide = expected_.wide[output], &sizes = expected_.sizes[output];
    std::vector<Sum<T>> plain;
    for (long double x : expected_.plain[output]) plain.push_back(static_cast<Sum<T>>(static_cast<T>(x)));
    attune_test::Verdict verdict = attune_test::judge(wide, plain, got, sizes);
    if (verdict.right || documented_error() == 0) return verdict;
    double error = 0, plain_error = 0, largest = 0;
    for (std::size_t n = 0; n < got.size(); n++) {
        error = std::max(error, static_cast<double>(std::abs(static_cast<long double>(got[n]) - wide[n])));
        if (std::isnan(got[n])) error = std::numeric_limits<double>::infinity();
        plain_error = std::max(plain_error, static_cast<double>(std::abs(static_cast<long double>(plain[n]) - wide[n])));
        largest = std::max(largest, static_cast<double>(std::abs(sizes[n])));
    }
    verdict.ratio = error / (2 * plain_error + (attune_test::floor_of<T>() + documented_error()) * largest);
    verdict.right = verdict.ratio <= 1;
    return verdict;
}

attune_test::Verdict Case::judge_output(std::size_t n) const {
    switch (outputs_[n]->dtype) {
    case attune::DType::f64: return judge_as<double>(n);
    case attune::DType::bf16: return judge_as<BFloat16>(n);
    case attune::DType::f16: return judge_as<Float16>(n);
    case attune::DType::f32: return judge_as<float>(n);
    default: break;
    }
    const Output &o = *outputs_[n];
    std::size_t at = 0;
    for (const Row &r : rows_)
        for (std::int64_t c = 0; c < o.width; c++, at++)
            if (o.data.as<unsigned char>()[place(o, row_of(n, r)) + c] != expected_.wide[n][at])
                return {false, "element " + std::to_string(at) + " of the sample differs"};
    return {true, ""};
}

attune_test::Verdict Case::judge_output() {
    expected();
    attune_test::Verdict all{true, ""};
    for (std::size_t n = 0; n < outputs_.size() && all.right; n++) {
        attune_test::Verdict verdict = judge_output(n);
        verdict.why = std::string(outputs_[n]->name) + ": " + verdict.why;
        verdict.ratio = std::max(verdict.ratio, all.ratio);
        all = verdict;
    }
    return all;
}

std::string Case::check_output() {
    const attune_test::Verdict verdict = judge_output();
    return verdict.right ? std::string() : "wrong result: " + verdict.why;
}

std::unique_ptr<Case> make_case(const Shape &shape) {
    if (shape.packed()) return make_packed_case(shape);
    if (shape.backward()) return make_backward_case(shape);
    if (shape.op == "linear_backward") return make_linear_backward_case(shape);
    return shape.attention() ? make_attention_case(shape) : make_layer_case(shape);
}

}  // namespace bench
