// SPDX-License-Identifier: MIT
// Attention by any score and with any option of a shape: its call, and its reference, one row at a time.
#include "attention_inputs.h"
#include "attune/additive.h"
#include "tests/reference/philox_reference.h"
#include <cmath>
#include <limits>

namespace bench {
namespace {

template<typename T> class AttentionCase final : public Case {
public:
    explicit AttentionCase(const Shape &s) : Case(s, s.h), in_(s), score_(score_elements(s), 5) {
        add_output("out", s.dv, s.dtype);
        if (s.options.weights) add_output("weights", s.k, s.dtype);
    }

    attune::Status call(attune::Context &context, std::string_view variant) const override;
    std::vector<Bytes> operands() const override {
        return {{in_.key.data(), in_.key.bytes()}, {in_.value.data(), in_.value.bytes()}};
    }
    std::vector<Region> inputs() const override {
        std::vector<Region> all = in_.regions();
        all.push_back(region("score", score_));
        return all;
    }

protected:
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        wide ? row_in<Wider<T>>(r, out) : row_in<Sum<T>>(r, out);
    }
    // A tanh of the additive score may be off by 2e-6 (runtime/include/attune/additive.h), a weight by twice as much.
    double documented_error() const override {
        if (shape().op != "additive" || sizeof(T) == 8) return 0;
        double sum = 0;
        for (std::int64_t c = 0; c < shape().d; c++) sum += std::abs(static_cast<double>(score_.data()[c]));
        return 2 * 2e-6 * sum;
    }

private:
    static std::int64_t score_elements(const Shape &s) { return s.op == "additive" ? s.d : s.op == "general" ? s.d * s.d : 0; }
    template<typename W> W score(const W *q, const T *k) const;
    template<typename W> void row_in(const Row &, std::vector<long double> &out) const;

    AttentionInputs<T> in_;
    Filled<T> score_;
};

template<typename T> attune::Status AttentionCase<T>::call(attune::Context &context, std::string_view variant) const {
    const Shape &s = shape();
    attune::SdpaOptions o = in_.options(variant);
    if (s.options.weights) o.weights = output(1);
    const attune::ConstView query = in_.query_view(), key = in_.key_view(), value = in_.value_view();
    if (s.op == "additive") {
        attune::AdditiveOptions additive;
        additive.w_score = attune::ConstView(score_.data(), {s.d});
        additive.attention = o;
        return attune::additive_attention(context, query, key, value, output(0), additive);
    }
    o.score = s.op == "cosine"     ? attune::Score::cosine
              : s.op == "gaussian" ? attune::Score::gaussian
              : s.op == "general"  ? attune::Score::general
                                   : attune::Score::dot_product;
    if (s.op == "general") o.score_weight = attune::ConstView(score_.data(), {s.d, s.d});
    return attune::scaled_dot_product_attention(context, query, key, value, output(0), o);
}

// Score of a query and a key; for the general score q is already multiplied by W.
template<typename T> template<typename W> W AttentionCase<T>::score(const W *q, const T *k) const {
    const Shape &s = shape();
    W dot = 0, of_query = 0, of_key = 0, apart = 0, additive = 0;
    const bool is_additive = s.op == "additive";
    for (std::int64_t c = 0; c < s.d; c++) {
        const W x = static_cast<W>(k[c]);
        if (is_additive) {
            additive += static_cast<W>(score_.data()[c]) * std::tanh(q[c] + x);
            continue;
        }
        dot += q[c] * x, of_query += q[c] * q[c], of_key += x * x, apart += (q[c] - x) * (q[c] - x);
    }
    if (is_additive) return additive;
    if (s.op == "cosine") return of_query * of_key == 0 ? W(0) : dot / (std::sqrt(of_query) * std::sqrt(of_key));
    if (s.op == "gaussian") return W(-0.5) * apart;
    return s.op == "general" ? dot : dot / std::sqrt(static_cast<W>(s.d));
}

template<typename T> template<typename W> void AttentionCase<T>::row_in(const Row &r, std::vector<long double> &out) const {
    const Shape &s = shape();
    const auto &[e, h, i] = r;
    const std::int64_t kv_row = (e * s.kv + h * s.kv / s.h) * s.k;
    const T *const plain_query = in_.query.data() + ((e * s.h + h) * s.q + i) * s.d;
    std::vector<W> q(plain_query, plain_query + s.d), p(static_cast<std::size_t>(s.k), W(0)),
        pv(static_cast<std::size_t>(s.dv));
    if (s.op == "general")
        for (std::int64_t c = 0; c < s.d; c++) {
            W sum = 0;
            for (std::int64_t a = 0; a < s.d; a++)
                sum += static_cast<W>(plain_query[a]) * static_cast<W>(score_.data()[a * s.d + c]);
            q[static_cast<std::size_t>(c)] = sum;
        }
    const auto [from, to] = s.keys_of(e, i);
    const auto kept = [&](std::int64_t j) { return in_.kept(i, j); };
    W most = s.options.sinks ? static_cast<W>(in_.sinks.data()[h]) : -std::numeric_limits<W>::infinity();
    for (std::int64_t j = from; j < to; j++) {
        if (!kept(j)) continue;
        W x = score<W>(q.data(), in_.key.data() + (kv_row + j) * s.d);
        if (s.options.softcap) x = W(softcap) * std::tanh(x / W(softcap));
        x += in_.template added<W>(h, i, j);
        most = std::max(most, p[static_cast<std::size_t>(j)] = x);
    }
    W sum = s.options.sinks ? std::exp(static_cast<W>(in_.sinks.data()[h]) - most) : W(0);
    for (std::int64_t j = from; j < to; j++)
        if (kept(j)) sum += p[static_cast<std::size_t>(j)] = std::exp(p[static_cast<std::size_t>(j)] - most);
    for (std::int64_t j = from; j < to; j++) {
        W &weight = p[static_cast<std::size_t>(j)];
        weight = kept(j) ? weight / sum : W(0);
        if (!kept(j) || (s.options.dropout && !attune_test::kept_by_dropout(dropout, s.h, e, h, i, j))) continue;
        const W factor = s.options.dropout ? weight / (W(1) - W(dropout.probability)) : weight;
        for (std::int64_t c = 0; c < s.dv; c++)
            pv[static_cast<std::size_t>(c)] += factor * static_cast<W>(in_.value.data()[(kv_row + j) * s.dv + c]);
    }
    out.insert(out.end(), pv.begin(), pv.end());
    if (s.options.weights) out.insert(out.end(), p.begin(), p.end());
}

}  // namespace

std::unique_ptr<Case> make_attention_case(const Shape &shape) { return case_of_type<AttentionCase>(shape); }

}  // namespace bench
