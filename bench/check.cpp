// The sampled reference: the definition of attention, one row at a time, once in a wider type and once in the type itself.
#include "check.h"
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

namespace bench {
namespace {

// Uniform in [-1, 1), by a generator that fills hundreds of megabytes in no time.
template<typename T> void fill(const MappedArray &array, std::uint64_t seed) {
    T *const x = array.as<T>();
    for (std::size_t n = 0; n < array.bytes() / sizeof(T); n++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        x[n] = static_cast<T>(static_cast<std::int32_t>(seed >> 32)) * static_cast<T>(1.0 / 2147483648.0);
    }
}

// One row of softmax(scale q k^T) v over the keys [from, to), in type W.
template<typename W, typename T>
void row(const T *q, const T *k, const T *v, std::int64_t d, std::int64_t dv, std::int64_t from, std::int64_t to, W *out) {
    std::fill(out, out + dv, W(0));
    if (from >= to) return;
    const W scale = W(1) / std::sqrt(static_cast<W>(d));
    const MappedArray weights(static_cast<std::size_t>(to - from) * sizeof(W));
    W *const p = weights.as<W>();
    W most = -std::numeric_limits<W>::infinity(), sum = 0;
    for (std::int64_t j = from; j < to; j++) {
        W s = 0;
        for (std::int64_t c = 0; c < d; c++) s += static_cast<W>(q[c]) * static_cast<W>(k[j * d + c]);
        most = std::max(most, p[j - from] = s * scale);
    }
    for (std::int64_t j = 0; j < to - from; j++) sum += p[j] = std::exp(p[j] - most);
    for (std::int64_t j = from; j < to; j++)
        for (std::int64_t c = 0; c < dv; c++) out[c] += p[j - from] * static_cast<W>(v[j * dv + c]);
    for (std::int64_t c = 0; c < dv; c++) out[c] /= sum;
}

std::size_t bytes_of(const Shape &s, std::int64_t elements) {
    return static_cast<std::size_t>(elements) * static_cast<std::size_t>(attune::size_of(s.dtype));
}

attune::View view(const Shape &s, const MappedArray &array, std::int64_t heads, std::int64_t rows, std::int64_t width) {
    if (s.dtype == attune::DType::f64) return attune::View(array.as<double>(), {s.b, heads, rows, width});
    return attune::View(array.as<float>(), {s.b, heads, rows, width});
}

}  // namespace

Case::Case(const Shape &s)
    : shape_(s), query_(bytes_of(s, s.b * s.h * s.q * s.d)), key_(bytes_of(s, s.b * s.kv * s.k * s.d)),
      value_(bytes_of(s, s.b * s.kv * s.k * s.dv)), out_(bytes_of(s, s.b * s.h * s.q * s.dv)),
      lengths_(s.lengths.size() * sizeof(std::int32_t)) {
    int seed = 1;
    for (const MappedArray *array : {&query_, &key_, &value_})
        s.dtype == attune::DType::f64 ? fill<double>(*array, seed++) : fill<float>(*array, seed++);
    std::copy(s.lengths.begin(), s.lengths.end(), lengths_.as<std::int32_t>());
    // The corners, where tiles and masks end, and some anywhere.
    for (std::int64_t i : {std::int64_t(0), s.q / 2, s.q - 1})
        rows_.push_back({0, 0, i}), rows_.push_back({s.b - 1, s.h - 1, i});
    std::mt19937 random(1);
    const auto below = [&](std::int64_t n) { return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n)); };
    for (int n = 0; n < 26; n++) rows_.push_back({below(s.b), below(s.h), below(s.q)});
}

attune::Status Case::call(attune::Context &context, std::string_view variant) const {
    const Shape &s = shape_;
    attune::SdpaOptions options;
    options.causal = s.causal ? attune::Causal::bottom_right : attune::Causal::none;
    options.window = s.window;
    if (!s.lengths.empty()) options.valid_lens = attune::ConstView(lengths_.as<std::int32_t>(), {s.b});
    options.variant = variant;
    return attune::scaled_dot_product_attention(context, view(s, query_, s.h, s.q, s.d), view(s, key_, s.kv, s.k, s.d),
                                                view(s, value_, s.kv, s.k, s.dv), view(s, out_, s.h, s.q, s.dv), options);
}

void Case::forget_output() {
    if (shape_.dtype == attune::DType::f64)
        std::fill_n(out_.as<double>(), out_.bytes() / sizeof(double), std::numeric_limits<double>::quiet_NaN());
    else
        std::fill_n(out_.as<float>(), out_.bytes() / sizeof(float), std::numeric_limits<float>::quiet_NaN());
}

template<typename T, typename Wide> void Case::reference() {
    const Shape &s = shape_;
    const auto width = static_cast<std::size_t>(s.dv);
    std::vector<Wide> wide(width);
    std::vector<T> plain(width);
    double plain_error = 0, largest = 0;
    for (const auto &[e, h, i] : rows_) {
        const std::int64_t kv_row = (e * s.kv + h * s.kv / s.h) * s.k;
        const T *const q = query_.as<T>() + ((e * s.h + h) * s.q + i) * s.d;
        const auto [from, to] = s.keys_of(e, i);
        row(q, key_.as<T>() + kv_row * s.d, value_.as<T>() + kv_row * s.dv, s.d, s.dv, from, to, wide.data());
        row(q, key_.as<T>() + kv_row * s.d, value_.as<T>() + kv_row * s.dv, s.d, s.dv, from, to, plain.data());
        for (std::size_t c = 0; c < width; c++) {
            plain_error = std::max(plain_error, static_cast<double>(std::abs(wide[c] - static_cast<Wide>(plain[c]))));
            largest = std::max(largest, static_cast<double>(std::abs(wide[c])));
            expected_.push_back(wide[c]);
        }
    }
    allowed_ = 2 * plain_error + 8 * std::numeric_limits<T>::epsilon() * largest;
}

template<typename T> std::string Case::compare() const {
    const auto width = static_cast<std::size_t>(shape_.dv);
    double worst = 0;
    for (std::size_t r = 0; r < rows_.size(); r++) {
        const auto &[e, h, i] = rows_[r];
        for (std::size_t c = 0; c < width; c++) {
            const T got = out_.as<T>()[((e * shape_.h + h) * shape_.q + i) * shape_.dv + static_cast<std::int64_t>(c)];
            const double error = static_cast<double>(std::abs(expected_[r * width + c] - static_cast<long double>(got)));
            worst = std::max(worst, std::isnan(error) ? std::numeric_limits<double>::infinity() : error);
        }
    }
    if (worst <= allowed_) return {};
    char text[80];
    std::snprintf(text, sizeof(text), "wrong result: error %.3g, allowed %.3g", worst, allowed_);
    return text;
}

std::string Case::check_output() {
    const bool f64 = shape_.dtype == attune::DType::f64;
    if (expected_.empty()) f64 ? reference<double, long double>() : reference<float, double>();
    return f64 ? compare<double>() : compare<float>();
}

}  // namespace bench
