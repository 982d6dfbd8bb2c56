// The sample of rows, and the rule by which they are right.
#include "case.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace bench {
namespace {

// x as an element of the type holds it.
long double rounded(attune::DType dtype, long double x) {
    if (dtype == attune::DType::bf16) return static_cast<long double>(BFloat16(x));
    return dtype == attune::DType::f16 ? static_cast<long double>(Float16(x)) : x;
}

// What the floor of the rule is a multiple of: eight roundings, and of 16 bits, where only the weight and the result are rounded,
// two.
double unit_of(attune::DType dtype) {
    switch (dtype) {
    case attune::DType::f64: return 8 * std::numeric_limits<double>::epsilon();
    case attune::DType::bf16: return 2 * static_cast<double>(std::numeric_limits<BFloat16>::epsilon());
    case attune::DType::f16: return 2 * static_cast<double>(std::numeric_limits<Float16>::epsilon());
    default: return 8 * static_cast<double>(std::numeric_limits<float>::epsilon());
    }
}

template<typename T> void fill_with_nan(const MappedArray &array) {
    std::fill_n(array.as<T>(), array.bytes() / sizeof(T), std::numeric_limits<T>::quiet_NaN());
}

}  // namespace

Case::Case(const Shape &shape, std::int64_t heads) : shape_(shape), heads_(heads) {
    // The corners, where tiles and masks end, and some anywhere.
    for (std::int64_t i : {std::int64_t(0), shape.q / 2, shape.q - 1})
        rows_.push_back({0, 0, i}), rows_.push_back({shape.b - 1, heads - 1, i});
    std::mt19937 random(1);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    for (int n = 0; n < 26; n++) rows_.push_back({below(shape.b), below(heads), below(shape.q)});
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
        default: std::fill_n(o->data.as<unsigned char>(), o->data.bytes(), static_cast<unsigned char>(2));  // no bool
        }
    }
}

long double Case::element(const Output &o, const Row &row, std::int64_t column) const {
    const std::int64_t n = ((row[0] * o.extents[1] + row[1]) * o.extents[2] + row[2]) * o.width + column;
    switch (o.dtype) {
    case attune::DType::boolean: return o.data.as<unsigned char>()[n];
    case attune::DType::f64: return o.data.as<double>()[n];
    case attune::DType::bf16: return static_cast<long double>(o.data.as<BFloat16>()[n]);
    case attune::DType::f16: return static_cast<long double>(o.data.as<Float16>()[n]);
    default: return static_cast<long double>(o.data.as<float>()[n]);
    }
}

void Case::compute_expected() {
    std::vector<double> plain_error(outputs_.size()), largest(outputs_.size());
    std::vector<long double> plain, size;
    for (const Row &r : rows_) {
        auto &wide = expected_.emplace_back();
        plain.clear(), size.clear();
        row(r, true, wide);
        row(r, false, plain);
        sizes(r, size);
        if (size.empty()) size = wide;
        std::size_t at = 0;
        for (std::size_t n = 0; n < outputs_.size(); n++)
            for (std::int64_t c = 0; c < outputs_[n]->width; c++, at++) {
                const long double stored = rounded(outputs_[n]->dtype, plain[at]);
                plain_error[n] = std::max(plain_error[n], static_cast<double>(std::abs(wide[at] - stored)));
                largest[n] = std::max(largest[n], static_cast<double>(std::abs(size[at])));
            }
    }
    for (std::size_t n = 0; n < outputs_.size(); n++)
        outputs_[n]->allowed = 2 * plain_error[n] + (unit_of(outputs_[n]->dtype) + documented_error()) * largest[n];
}

std::string Case::check_output() {
    if (expected_.empty()) compute_expected();
    std::size_t from = 0;
    for (std::size_t n = 0; n < outputs_.size(); n++) {
        const auto &o = outputs_[n];
        double worst = 0;
        for (std::size_t r = 0; r < rows_.size(); r++)
            for (std::int64_t c = 0; c < o->width; c++) {
                const long double expected = expected_[r][from + static_cast<std::size_t>(c)];
                const double error = static_cast<double>(std::abs(expected - element(*o, row_of(n, rows_[r]), c)));
                worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
            }
        from += static_cast<std::size_t>(o->width);
        if (worst <= o->allowed) continue;
        char text[100];
        std::snprintf(text, sizeof(text), "wrong result: %s: error %.3g, allowed %.3g", o->name, worst, o->allowed);
        return text;
    }
    return {};
}

std::unique_ptr<Case> make_case(const Shape &shape) {
    if (shape.packed()) return make_packed_case(shape);
    if (shape.op == "sdpa_backward") return make_backward_case(shape);
    if (shape.op == "linear_backward") return make_linear_backward_case(shape);
    return shape.attention() ? make_attention_case(shape) : make_layer_case(shape);
}

}  // namespace bench
