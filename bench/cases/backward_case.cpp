// SPDX-License-Identifier: MIT
// Gradients of attention, also of cosine, Gaussian and additive scores, by query, key and value, and by the bias where there is
// one: their call, and their reference from out and log-sum-exp of the forward pass, one row at a time.
#include "attention_inputs.h"
#include "attune/additive_backward.h"
#include "attune/sdpa_backward.h"
#include "tests/reference/philox_reference.h"
#include <cmath>

namespace bench {
namespace {

template<typename T> class BackwardCase final : public Case {
public:
    explicit BackwardCase(const Shape &s)
        : Case(s, s.h), in_(s), w_score_(s.op == "additive_backward" ? s.d : 0, 5), grad_out_(s.b * s.h * s.q * s.dv, 7),
          out_(grad_out_.bytes()), lse_(static_cast<std::size_t>(s.b * s.h * s.q) * sizeof(Sum<T>)) {
        add_output("grad_query", s.d, s.dtype);
        add_output("grad_key", {s.b, s.kv, s.k}, s.d, s.dtype);
        add_output("grad_value", {s.b, s.kv, s.k}, s.dv, s.dtype);
        if (s.options.bias) add_output("grad_bias", {1, 1, s.q}, s.k, s.dtype);
        attune::SdpaOptions o = options({});
        o.lse = attune::View(lse_.template as<Sum<T>>(), {s.b, s.h, s.q});
        attune::Context context;
        const attune::View out(out_.template as<T>(), {s.b, s.h, s.q, s.dv});
        const attune::ConstView q = in_.query_view(), k = in_.key_view(), v = in_.value_view();
        forward_ = additive() ? attune::additive_attention(context, q, k, v, out, additive_options(o))
                              : attune::scaled_dot_product_attention(context, q, k, v, out, o);
    }

    attune::Status call(attune::Context &context, std::string_view variant) const override {
        if (!forward_.ok()) return forward_;
        const Shape &s = shape();
        const attune::SdpaForward forward{attune::ConstView(out_.template as<T>(), {s.b, s.h, s.q, s.dv}),
                                          attune::ConstView(lse_.template as<Sum<T>>(), {s.b, s.h, s.q}),
                                          attune::ConstView(grad_out_.data(), {s.b, s.h, s.q, s.dv})};
        attune::SdpaGradients gradients;
        gradients.query = output(0), gradients.key = output(1), gradients.value = output(2);
        if (s.options.bias) gradients.bias = attune::View(static_cast<T *>(output(3).data), {s.q, s.k});
        const attune::ConstView q = in_.query_view(), k = in_.key_view(), v = in_.value_view();
        const attune::SdpaOptions o = options(variant);
        if (!additive()) return attune::scaled_dot_product_attention_backward(context, q, k, v, forward, gradients, o);
        attune::AdditiveGradients of_additive;
        of_additive.query = gradients.query, of_additive.key = gradients.key, of_additive.value = gradients.value;
        of_additive.bias = gradients.bias;
        return attune::additive_attention_backward(context, q, k, v, forward, of_additive, additive_options(o));
    }

    std::vector<Region> inputs() const override {
        std::vector<Region> all = in_.regions();
        all.insert(all.end(),
                   {region("w_score", w_score_), region("grad_out", grad_out_), region("out", out_), region("lse", lse_)});
        return all;
    }

protected:
    double row_operations() const override {
        const Shape &s = shape();
        const auto pairs = static_cast<double>(s.k + s.q * s.h / s.kv + (s.options.bias ? s.k * s.b * s.h : 0));
        return 2.0 * static_cast<double>((additive() ? 20 : 3) * s.d + 2 * s.dv) * pairs;
    }
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        wide ? row_in<Wider<T>, false>(r, out) : row_in<Sum<T>, false>(r, out);
    }
    void sizes(const Row &r, std::vector<long double> &out) const override { row_in<Sum<T>, true>(r, out); }

private:
    // Terms of one pair of a query and a key: its weight behind dropout, and the gradients by its score after all steps and by
    // its scaled product.
    template<typename W> struct Pair { W weight = 0, by_score = 0, by_product = 0; };
    // With `sizes`, the terms of sums are absolute values, except within scores.
    template<typename W, bool sizes> Pair<W> pair(const Row &query, std::int64_t j) const;
    template<typename W, bool sizes> void row_in(const Row &, std::vector<long double> &out) const;

    const T *query_row(const Row &r) const { return in_.query.data() + index(r) * shape().d; }
    const T *grad_row(const Row &r) const { return grad_out_.data() + index(r) * shape().dv; }
    std::int64_t index(const Row &r) const { return (r[0] * shape().h + r[1]) * shape().q + r[2]; }
    std::int64_t key_index(const Row &query, std::int64_t j) const {
        return (query[0] * shape().kv + query[1] * shape().kv / shape().h) * shape().k + j;
    }
    template<typename W, bool sizes> static W dot(const T *x, const T *y, std::int64_t n) {
        W sum = 0;
        for (std::int64_t c = 0; c < n; c++) sum += part<sizes>(static_cast<W>(x[c]) * static_cast<W>(y[c]));
        return sum;
    }
    template<bool sizes, typename W> static W part(W x) { return sizes ? std::abs(x) : x; }
    bool additive() const { return shape().op == "additive_backward"; }
    bool cosine() const { return shape().op == "cosine_backward"; }
    bool gaussian() const { return shape().op == "gaussian_backward"; }
    attune::SdpaOptions options(std::string_view variant) const {
        attune::SdpaOptions o = in_.options(variant);
        if (cosine()) o.score = attune::Score::cosine;
        if (gaussian()) o.score = attune::Score::gaussian;
        return o;
    }
    attune::AdditiveOptions additive_options(const attune::SdpaOptions &o) const {
        attune::AdditiveOptions options;
        options.w_score = attune::ConstView(w_score_.data(), {shape().d});
        options.attention = o;
        return options;
    }
    template<typename W> W norm(const T *x) const { return std::sqrt(dot<W, false>(x, x, shape().d)); }
    template<typename W> W score(const T *q, const T *k) const {
        if (cosine()) return dot<W, false>(q, k, shape().d) / (norm<W>(q) * norm<W>(k));
        if (!additive() && !gaussian()) return dot<W, false>(q, k, shape().d) / std::sqrt(static_cast<W>(shape().d));
        W sum = 0;
        for (std::int64_t c = 0; c < shape().d; c++) {
            const W x = static_cast<W>(q[c]), y = static_cast<W>(k[c]);
            sum += gaussian() ? W(-0.5) * (x - y) * (x - y) : static_cast<W>(w_score_.data()[c]) * std::tanh(x + y);
        }
        return sum;
    }
    // Adds the gradient by one factor of a score, `own`, a query or a key; `other` is the other factor.
    template<typename W, bool sizes> void add_by_side(std::vector<W> &sum, W by_score, const T *own, const T *other) const {
        const W norms = cosine() ? norm<W>(own) * norm<W>(other) : std::sqrt(static_cast<W>(shape().d)),
                by_own = cosine() ? score<W>(own, other) / dot<W, false>(own, own, shape().d) : W(gaussian());
        for (std::size_t c = 0; c < sum.size(); c++) {
            const W x = static_cast<W>(own[c]), y = static_cast<W>(other[c]);
            if (additive()) {
                const W t = std::tanh(x + y);
                sum[c] += part<sizes>(by_score * static_cast<W>(w_score_.data()[c]) * (1 - t * t));
                continue;
            }
            const W of_other = gaussian() ? y : y / norms, of_own = by_own * x;
            sum[c] += part<sizes>(by_score) * (sizes ? std::abs(of_other) + std::abs(of_own) : of_other - of_own);
        }
    }

    AttentionInputs<T> in_;
    Filled<T> w_score_, grad_out_;
    MappedArray out_, lse_;
    attune::Status forward_;
};

template<typename T>
template<typename W, bool sizes>
typename BackwardCase<T>::template Pair<W> BackwardCase<T>::pair(const Row &r, std::int64_t j) const {
    const Shape &s = shape();
    const auto &[e, h, i] = r;
    const auto [from, to] = s.keys_of(e, i);
    if (j < from || j >= to || !in_.kept(i, j)) return {};
    const std::int64_t key = key_index(r, j);
    W x = score<W>(query_row(r), in_.key.data() + key * s.d), bend = 1;
    if (s.options.softcap) {
        const W t = std::tanh(x / W(softcap));
        x = W(softcap) * t, bend = 1 - t * t;
    }
    x += in_.template added<W>(h, i, j);
    const W weight = std::exp(x - static_cast<W>(lse_.template as<Sum<T>>()[index(r)]));
    const W kept = !s.options.dropout                                       ? W(1)
                   : attune_test::kept_by_dropout(dropout, s.h, e, h, i, j) ? 1 / (1 - W(dropout.probability))
                                                                            : W(0);
    const W by_weight = kept * dot<W, sizes>(grad_row(r), in_.value.data() + key * s.dv, s.dv);
    const W delta = dot<W, sizes>(grad_row(r), out_.template as<T>() + index(r) * s.dv, s.dv),
            by_score = weight * (sizes ? by_weight + delta : by_weight - delta);
    return {kept * weight, by_score, by_score * bend};
}

template<typename T>
template<typename W, bool sizes>
void BackwardCase<T>::row_in(const Row &r, std::vector<long double> &out) const {
    const Shape &s = shape();
    std::vector<W> query(static_cast<std::size_t>(s.d)), key(query), value(static_cast<std::size_t>(s.dv));
    const auto add = [](std::vector<W> &sum, W factor, const T *x) {
        for (std::size_t c = 0; c < sum.size(); c++) sum[c] += part<sizes>(factor * static_cast<W>(x[c]));
    };
    for (std::int64_t j = 0; j < s.k; j++) {
        const T *const k = in_.key.data() + key_index(r, j) * s.d;
        add_by_side<W, sizes>(query, pair<W, sizes>(r, j).by_product, query_row(r), k);
    }
    const auto &[e, kv_head, j] = row_of(1, r);
    for (std::int64_t h = kv_head * (s.h / s.kv); h < (kv_head + 1) * (s.h / s.kv); h++)
        for (std::int64_t i = 0; i < s.q; i++) {
            const Pair<W> p = pair<W, sizes>({e, h, i}, j);
            const T *const q = query_row({e, h, i});
            add_by_side<W, sizes>(key, p.by_product, in_.key.data() + key_index({e, h, i}, j) * s.d, q);
            add(value, p.weight, grad_row({e, h, i}));
        }
    for (const std::vector<W> *x : {&query, &key, &value}) out.insert(out.end(), x->begin(), x->end());
    for (std::int64_t k = 0; s.options.bias && k < s.k; k++) {
        W sum = 0;
        for (std::int64_t b = 0; b < s.b; b++)
            for (std::int64_t h = 0; h < s.h; h++) sum += pair<W, sizes>({b, h, r[2]}, k).by_score;
        out.push_back(sum);
    }
}

}  // namespace

std::unique_ptr<Case> make_backward_case(const Shape &shape) {
    if (shape.op != "sdpa_backward") return case_of_wide_type<BackwardCase>(shape);
    return case_of_type<BackwardCase>(shape);
}

}  // namespace bench
