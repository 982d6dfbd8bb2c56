// SPDX-License-Identifier: MIT
// Gradients of a linear layer by x, weight and bias: their call, and their reference, one row at a time.
#include "attune/linear_backward.h"
#include "case.h"

namespace bench {
namespace {

template<typename T> class LinearBackwardCase final : public Case {
public:
    explicit LinearBackwardCase(const Shape &s)
        : Case(s, 1), x_(s.b * s.q * s.d, 1), weight_(s.dv * s.d, 2), grad_out_(s.b * s.q * s.dv, 3) {
        add_output("grad_x", s.d, s.dtype);
        add_output("grad_weight", {1, 1, s.dv}, s.d, s.dtype);
        add_output("grad_bias", {1, 1, 1}, s.dv, s.dtype);
    }
    attune::Status call(attune::Context &context, std::string_view variant) const override {
        const Shape &s = shape();
        attune::LinearGradients gradients;
        gradients.x = output(0);
        gradients.weight = attune::View(static_cast<T *>(output(1).data), {s.dv, s.d});
        gradients.bias = attune::View(static_cast<T *>(output(2).data), {s.dv});
        return attune::linear_backward(
            context, attune::ConstView(x_.data(), {s.b, 1, s.q, s.d}), attune::ConstView(weight_.data(), {s.dv, s.d}),
            attune::ConstView(grad_out_.data(), {s.b, 1, s.q, s.dv}), gradients, {.variant = variant});
    }

    std::vector<Region> inputs() const override {
        return {region("x", x_), region("weight", weight_), region("grad_out", grad_out_)};
    }

protected:
    double row_operations() const override {
        const Shape &s = shape();
        return 2.0 * static_cast<double>(s.d * s.dv + s.b * s.q * (s.d + s.dv));
    }
    void row(const Row &r, bool wide, std::vector<long double> &out) const override {
        wide ? row_in<Wider<T>>(r, out) : row_in<Sum<T>>(r, out);
    }

private:
    template<typename W> void row_in(const Row &r, std::vector<long double> &out) const {
        const Shape &s = shape();
        std::vector<W> x(static_cast<std::size_t>(s.d)), weight(x), bias(static_cast<std::size_t>(s.dv));
        const auto add = [](std::vector<W> &sum, W factor, const T *row) {
            for (std::size_t c = 0; c < sum.size(); c++) sum[c] += factor * static_cast<W>(row[c]);
        };
        const T *const grad = grad_out_.data() + (r[0] * s.q + r[2]) * s.dv;
        for (std::int64_t n = 0; n < s.dv; n++) add(x, static_cast<W>(grad[n]), weight_.data() + n * s.d);
        const std::int64_t column = row_of(1, r)[2];
        for (std::int64_t m = 0; m < s.b * s.q; m++) {
            add(weight, static_cast<W>(grad_out_.data()[m * s.dv + column]), x_.data() + m * s.d);
            add(bias, W(1), grad_out_.data() + m * s.dv);
        }
        for (const std::vector<W> *v : {&x, &weight, &bias}) out.insert(out.end(), v->begin(), v->end());
    }

    Filled<T> x_, weight_, grad_out_;
};

}  // namespace

std::unique_ptr<Case> make_linear_backward_case(const Shape &shape) { return case_of_type<LinearBackwardCase>(shape); }

}  // namespace bench
