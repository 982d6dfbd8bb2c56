// SPDX-License-Identifier: MIT
// Case of a packed batch: sequences one after another in (T, H, D).
#include "attune/varlen.h"
#include "case.h"
#include <algorithm>
#include <cmath>

namespace bench {
namespace {

template<typename T> class PackedCase final : public Case {
public:
    explicit PackedCase(const Shape &s)
        : Case(s, s.h), query_(s.q * s.h * s.d, 1), key_(s.k * s.kv * s.d, 2), value_(s.k * s.kv * s.dv, 3) {
        add_output("out", s.dv, s.dtype);
        query_ends_.push_back(0), key_ends_.push_back(0);
        for (std::int32_t length : s.lengths) {
            query_ends_.push_back(query_ends_.back() + (s.q == s.k ? length : 1));
            key_ends_.push_back(key_ends_.back() + length);
        }
    }

    attune::Status call(attune::Context &context, std::string_view variant) const override {
        const Shape &s = shape();
        const auto ends = static_cast<std::int64_t>(key_ends_.size());
        attune::View out = output(0);  // (1, H, T, D)
        out.rank = 3;
        out.extent[0] = s.q, out.extent[1] = s.h, out.extent[2] = s.dv;
        out.stride[0] = s.dv, out.stride[1] = s.q * s.dv, out.stride[2] = 1;
        return attune::variable_length_attention(
            context, attune::ConstView(query_.data(), {s.q, s.h, s.d}), attune::ConstView(key_.data(), {s.k, s.kv, s.d}),
            attune::ConstView(value_.data(), {s.k, s.kv, s.dv}), attune::ConstView(query_ends_.data(), {ends}),
            attune::ConstView(key_ends_.data(), {ends}), out,
            {.causal = s.causal ? attune::Causal::bottom_right : attune::Causal::none, .variant = variant});
    }

    std::vector<Region> inputs() const override {
        return {region("query", query_), region("key", key_), region("value", value_)};
    }

protected:
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        wide ? row_in<Wider<T>>(r, out) : row_in<Sum<T>>(r, out);
    }

private:
    template<typename W> void row_in(const Row &r, std::vector<long double> &out) const {
        const Shape &s = shape();
        const auto &[e, h, i] = r;
        const std::int64_t key_head = h * s.kv / s.h;
        const auto [from, to] = s.keys_of(e, i);
        const T *const q = query_.data() + (i * s.h + h) * s.d;
        std::vector<W> p, pv(static_cast<std::size_t>(s.dv));
        for (std::int64_t j = from; j < to; j++) {
            const T *const k = key_.data() + (j * s.kv + key_head) * s.d;
            W dot = 0;
            for (std::int64_t c = 0; c < s.d; c++) dot += static_cast<W>(q[c]) * static_cast<W>(k[c]);
            p.push_back(dot / std::sqrt(static_cast<W>(s.d)));
        }
        const W most = *std::max_element(p.begin(), p.end());
        W sum = 0;
        for (W &x : p) sum += x = std::exp(x - most);
        for (std::int64_t j = from; j < to; j++)
            for (std::int64_t c = 0; c < s.dv; c++)
                pv[static_cast<std::size_t>(c)] += p[static_cast<std::size_t>(j - from)] / sum *
                                                   static_cast<W>(value_.data()[(j * s.kv + key_head) * s.dv + c]);
        out.insert(out.end(), pv.begin(), pv.end());
    }

    Filled<T> query_, key_, value_;
    std::vector<std::int32_t> query_ends_, key_ends_;
};

}  // namespace

std::unique_ptr<Case> make_packed_case(const Shape &shape) { return case_of_type<PackedCase>(shape); }

}  // namespace bench
