// The sample of rows, and the rule by which they are right.
#include "case.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace bench {

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
        const std::size_t n = o->data.bytes() / static_cast<std::size_t>(attune::size_of(o->dtype));
        if (o->dtype == attune::DType::f64)
            std::fill_n(o->data.as<double>(), n, std::numeric_limits<double>::quiet_NaN());
        else if (o->dtype == attune::DType::f32)
            std::fill_n(o->data.as<float>(), n, std::numeric_limits<float>::quiet_NaN());
        else
            std::fill_n(o->data.as<unsigned char>(), n, static_cast<unsigned char>(2));  // no bool
    }
}

long double Case::element(const Output &o, const Row &row, std::int64_t column) const {
    const std::int64_t n = ((row[0] * o.extents[1] + row[1]) * o.extents[2] + row[2]) * o.width + column;
    if (o.dtype == attune::DType::boolean) return o.data.as<unsigned char>()[n];
    return o.dtype == attune::DType::f64 ? o.data.as<double>()[n] : static_cast<long double>(o.data.as<float>()[n]);
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
                plain_error[n] = std::max(plain_error[n], static_cast<double>(std::abs(wide[at] - plain[at])));
                largest[n] = std::max(largest[n], static_cast<double>(std::abs(size[at])));
            }
    }
    const double epsilon = shape_.dtype == attune::DType::f64 ? std::numeric_limits<double>::epsilon()
                                                              : static_cast<double>(std::numeric_limits<float>::epsilon());
    for (std::size_t n = 0; n < outputs_.size(); n++)
        outputs_[n]->allowed = 2 * plain_error[n] + (8 * epsilon + documented_error()) * largest[n];
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
