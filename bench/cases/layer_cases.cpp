// SPDX-License-Identifier: MIT
// Cases of the ops around attention: linear, batch_dot, masked_softmax, dropout_mask and the multi-head layer.
#include "attune/dropout.h"
#include "attune/linear.h"
#include "attune/masked_softmax.h"
#include "attune/multi_head.h"
#include "case.h"
#include "tests/reference/philox_reference.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

namespace bench {
namespace {

// sum over k of a[k] x[k * stride]
template<typename W, typename T> W dot(const W *a, const T *x, std::int64_t n, std::int64_t stride = 1) {
    W sum = 0;
    for (std::int64_t k = 0; k < n; k++) sum += a[k] * static_cast<W>(x[k * stride]);
    return sum;
}

template<typename W, typename T> std::vector<W> in_type(const T *x, std::int64_t n) { return std::vector<W>(x, x + n); }

// x weight^T + bias for one row of x.
template<typename W, typename T>
std::vector<W> linear_row(const std::vector<W> &x, const T *weight, const T *bias, std::int64_t outputs) {
    const auto width = static_cast<std::int64_t>(x.size());
    std::vector<W> y;
    for (std::int64_t n = 0; n < outputs; n++) y.push_back(dot(x.data(), weight + n * width, width) + static_cast<W>(bias[n]));
    return y;
}

// Softmax of the first `length` scores, 0 beyond.
template<typename W> void softmax(std::vector<W> &x, std::int64_t length) {
    std::fill(x.begin() + length, x.end(), W(0));
    W most = -std::numeric_limits<W>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < length; j++) most = std::max(most, x[static_cast<std::size_t>(j)]);
    for (std::int64_t j = 0; j < length; j++)
        sum += x[static_cast<std::size_t>(j)] = std::exp(x[static_cast<std::size_t>(j)] - most);
    for (std::int64_t j = 0; j < length; j++) x[static_cast<std::size_t>(j)] /= sum;
}

template<typename T> class LinearCase final : public Case {
public:
    explicit LinearCase(const Shape &s) : Case(s, 1), x_(s.b * s.q * s.d, 1), weight_(s.dv * s.d, 2), bias_(s.dv, 3) {
        add_output("out", s.dv, s.dtype);
    }
    attune::Status call(attune::Context &context, std::string_view variant) const override {
        const Shape &s = shape();
        attune::ConstView weight(weight_.data(), {s.dv, s.d});
        if (s.op == "linear_packed") {
            const auto [panels, depth, width] = attune::packed_weight_extents(s.dtype, s.dv, s.d);
            if (!packed_) {
                packed_.emplace(panels * depth * width, 0);
                const attune::View packed(packed_->data(), {panels, depth, width});
                if (const auto status = attune::pack_linear_weight(context, weight, packed); !status.ok()) return status;
            }
            weight = attune::ConstView(packed_->data(), {panels, depth, width});
        }
        return attune::linear(context, attune::ConstView(x_.data(), {s.b, 1, s.q, s.d}), weight,
                              attune::ConstView(bias_.data(), {s.dv}), output(0), {.variant = variant});
    }

    std::vector<Region> inputs() const override { return {region("x", x_), region("weight", weight_), region("bias", bias_)}; }

protected:
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        const T *const x = x_.data() + (r[0] * shape().q + r[2]) * shape().d;
        const auto of = [&](auto like) {
            const auto y = linear_row(in_type<decltype(like)>(x, shape().d), weight_.data(), bias_.data(), shape().dv);
            out.insert(out.end(), y.begin(), y.end());
        };
        wide ? of(Wider<T>()) : of(Sum<T>());
    }

private:
    Filled<T> x_, weight_, bias_;
    mutable std::optional<Filled<T>> packed_;  // packed in the first call, which is not timed
};

template<typename T> class BatchDotCase final : public Case {
public:
    explicit BatchDotCase(const Shape &s) : Case(s, s.h), a_(s.b * s.h * s.q * s.k, 1), x_(s.b * s.h * s.k * s.dv, 2) {
        add_output("out", s.dv, s.dtype);
    }
    attune::Status call(attune::Context &context, std::string_view variant) const override {
        const Shape &s = shape();
        return attune::batch_dot(context, attune::ConstView(a_.data(), {s.b, s.h, s.q, s.k}),
                                 attune::ConstView(x_.data(), {s.b, s.h, s.k, s.dv}), output(0), {.variant = variant});
    }

    std::vector<Region> inputs() const override { return {region("a", a_), region("x", x_)}; }

protected:
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        const Shape &s = shape();
        const std::int64_t batch = r[0] * s.h + r[1];
        const auto of = [&](auto like) {
            const auto a = in_type<decltype(like)>(a_.data() + (batch * s.q + r[2]) * s.k, s.k);
            for (std::int64_t n = 0; n < s.dv; n++) out.push_back(dot(a.data(), x_.data() + batch * s.k * s.dv + n, s.k, s.dv));
        };
        wide ? of(Wider<T>()) : of(Sum<T>());
    }

private:
    Filled<T> a_, x_;
};

template<typename T> class MaskedSoftmaxCase final : public Case {
public:
    explicit MaskedSoftmaxCase(const Shape &s)
        : Case(s, s.h), scores_(s.b * s.h * s.q * s.k, 1), lengths_(s.lengths.size() * sizeof(std::int32_t)) {
        add_output("out", s.k, s.dtype);
        std::copy(s.lengths.begin(), s.lengths.end(), lengths_.as<std::int32_t>());
    }
    attune::Status call(attune::Context &context, std::string_view variant) const override {
        const Shape &s = shape();
        attune::MaskedSoftmaxOptions options;
        if (!s.lengths.empty()) options.valid_lens = attune::ConstView(lengths_.as<std::int32_t>(), {s.b});
        options.variant = variant;
        return attune::masked_softmax(context, attune::ConstView(scores_.data(), {s.b, s.h, s.q, s.k}), output(0), options);
    }

    std::vector<Region> inputs() const override { return {region("scores", scores_), region("lengths", lengths_)}; }

protected:
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        const Shape &s = shape();
        const auto of = [&](auto like) {
            auto x = in_type<decltype(like)>(scores_.data() + ((r[0] * s.h + r[1]) * s.q + r[2]) * s.k, s.k);
            softmax(x, s.lengths.empty() ? s.k : s.lengths[static_cast<std::size_t>(r[0])]);
            out.insert(out.end(), x.begin(), x.end());
        };
        wide ? of(Wider<T>()) : of(Sum<T>());
    }

private:
    Filled<T> scores_;
    MappedArray lengths_;
};

class DropoutMaskCase final : public Case {
public:
    explicit DropoutMaskCase(const Shape &s) : Case(s, s.h) { add_output("mask", s.k, attune::DType::boolean); }
    // dropout_mask() takes no name of a variant.
    attune::Status call(attune::Context &context, std::string_view) const override {
        return attune::dropout_mask(context, dropout, output(0));
    }

    std::vector<Region> inputs() const override { return {}; }

protected:
    void row(const Row &r, bool, std::vector<long double> &out) const override {
        for (std::int64_t j = 0; j < shape().k; j++)
            out.push_back(attune_test::kept_by_dropout(dropout, shape().h, r[0], r[1], r[2], j));
    }

private:
    static constexpr attune::Dropout dropout = {.probability = 0.1, .seed = 2026};
};

// Self-attention where there are as many queries as keys, else attention over another sequence.
template<typename T> class MultiHeadCase final : public Case {
public:
    explicit MultiHeadCase(const Shape &s)
        : Case(s, 1), width_(s.h * s.d), key_width_(s.kv * s.d), x_(s.b * s.q * width_, 1),
          memory_(s.q == s.k ? 0 : s.b * s.k * width_, 2), packed_((width_ + 2 * key_width_) * width_, 3),
          packed_bias_(width_ + 2 * key_width_, 4), out_(width_ * width_, 5), out_bias_(width_, 6) {
        add_output("out", width_, s.dtype);
        // Rows of the weights have length about 1, as in trained layers.
        for (const MappedArray *weight : {static_cast<const MappedArray *>(&packed_), static_cast<const MappedArray *>(&out_)})
            for (T *w = weight->as<T>(); w != weight->as<T>() + weight->bytes() / sizeof(T); w++)
                *w = static_cast<T>(static_cast<Sum<T>>(*w) / std::sqrt(static_cast<Sum<T>>(width_)));
    }
    attune::Status call(attune::Context &context, std::string_view variant) const override {
        const Shape &s = shape();
        const attune::ConstView x(x_.data(), {s.b, s.q, width_}), memory(keys(), {s.b, s.k, width_});
        attune::MultiHeadWeights w;
        const T *const bias = packed_bias_.data();
        w.query = attune::ConstView(packed_.data(), {width_, width_});
        w.key = attune::ConstView(packed_.data() + width_ * width_, {key_width_, width_});
        w.value = attune::ConstView(packed_.data() + (width_ + key_width_) * width_, {key_width_, width_});
        w.out = attune::ConstView(out_.data(), {width_, width_});
        w.query_bias = attune::ConstView(bias, {width_});
        w.key_bias = attune::ConstView(bias + width_, {key_width_});
        w.value_bias = attune::ConstView(bias + width_ + key_width_, {key_width_});
        w.out_bias = attune::ConstView(out_bias_.data(), {width_});
        attune::MultiHeadOptions options;
        options.heads = s.h, options.key_heads = s.kv;
        options.attention.causal = s.causal ? attune::Causal::bottom_right : attune::Causal::none;
        options.attention.variant = variant;
        attune::View out = output(0);
        out.rank = 3;
        out.extent[1] = s.q, out.extent[2] = width_, out.stride[1] = width_, out.stride[2] = 1;
        return attune::multi_head_attention(context, x, memory, memory, w, out, options);
    }

    std::vector<Region> inputs() const override {
        return {region("x", x_),       region("memory", memory_),    region("weights", packed_), region("biases", packed_bias_),
                region("w_out", out_), region("out_bias", out_bias_)};
    }

protected:
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        wide ? row_in(r, wide_, out) : row_in(r, plain_, out);
    }

private:
    // Projected keys and values of a batch entry, (k, 2 * key_width), computed once.
    template<typename W> using Projected = std::map<std::int64_t, std::vector<std::vector<W>>>;
    // Rounds an intermediate result as the plain computation stores it.
    template<typename W> static std::vector<W> stored(std::vector<W> x) {
        if (std::is_same_v<W, Sum<T>>)
            for (W &v : x) v = static_cast<W>(static_cast<T>(v));
        return x;
    }
    const T *keys() const { return shape().q == shape().k ? x_.data() : memory_.data(); }
    template<typename W> void row_in(const Row &r, Projected<W> &projected, std::vector<long double> &out) const {
        const Shape &s = shape();
        auto &memory = projected[r[0]];
        if (memory.empty())
            for (std::int64_t j = 0; j < s.k; j++)
                memory.push_back(
                    stored(linear_row(in_type<W>(keys() + (r[0] * s.k + j) * width_, width_), packed_.data() + width_ * width_,
                                      packed_bias_.data() + width_, 2 * key_width_)));
        const auto q = stored(linear_row(in_type<W>(x_.data() + (r[0] * s.q + r[2]) * width_, width_), packed_.data(),
                                         packed_bias_.data(), width_));
        std::vector<W> heads(static_cast<std::size_t>(width_)), p(static_cast<std::size_t>(s.k));
        const std::int64_t length = s.keys_of(r[0], r[2]).second;
        for (std::int64_t h = 0; h < s.h; h++) {
            const std::int64_t key = h * s.kv / s.h * s.d;
            for (std::int64_t j = 0; j < s.k; j++)
                p[static_cast<std::size_t>(j)] =
                    dot(q.data() + h * s.d, memory[static_cast<std::size_t>(j)].data() + key, s.d) /
                    std::sqrt(static_cast<W>(s.d));
            softmax(p, length);
            for (std::int64_t j = 0; j < length; j++)
                for (std::int64_t c = 0; c < s.d; c++)
                    heads[static_cast<std::size_t>(h * s.d + c)] +=
                        p[static_cast<std::size_t>(j)] *
                        memory[static_cast<std::size_t>(j)][static_cast<std::size_t>(key_width_ + key + c)];
        }
        const auto y = linear_row(stored(heads), out_.data(), out_bias_.data(), width_);
        out.insert(out.end(), y.begin(), y.end());
    }

    std::int64_t width_, key_width_;
    Filled<T> x_, memory_, packed_, packed_bias_, out_, out_bias_;
    mutable Projected<Wider<T>> wide_;
    mutable Projected<Sum<T>> plain_;
};

}  // namespace

std::unique_ptr<Case> make_layer_case(const Shape &shape) {
    if (shape.layer()) return case_of_type<LinearCase>(shape);
    if (shape.op == "batch_dot") return case_of_type<BatchDotCase>(shape);
    if (shape.op == "masked_softmax") return case_of_wide_type<MaskedSoftmaxCase>(shape);
    if (shape.op == "dropout_mask") return std::make_unique<DropoutMaskCase>(shape);
    return case_of_type<MultiHeadCase>(shape);
}

}  // namespace bench
