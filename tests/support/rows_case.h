// SPDX-License-Identifier: MIT
// One call of transform_rows as data, its arrays, and the check of its outputs and gradients.
#pragma once
#include "attune/rows.h"
#include "tests/reference/elements.h"
#include "tests/reference/rows_reference.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include <sstream>

namespace attune_test {

enum class Pairs { none, halves, interleaved };

struct RowsCase {
    std::int64_t batch = 2, heads = 3, rows = 5, head_dim = 32;
    bool norm = false, weight_by_head = false, weight_is_f32 = false;
    Pairs pairs = Pairs::none;
    std::int64_t dim = 0, offset = 0;  // of RoPE
    bool hadamard = false;
    bool own_tables = false;  // by base
    Layout layout = Layout::dense, out_layout = Layout::dense;
    bool in_place = false;
    attune::Place place = attune::Place::host;
    unsigned seed = 1;

    std::int64_t turned() const { return pairs == Pairs::none ? 0 : dim == 0 ? head_dim : dim; }
};
inline std::string describe(const RowsCase &c) {
    std::ostringstream text;
    text << "B " << c.batch << " H " << c.heads << " T " << c.rows << " D " << c.head_dim << (c.norm ? " norm" : "")
         << (c.weight_by_head ? " by head" : "") << (c.weight_is_f32 ? " f32" : "") << " rope " << int(c.pairs) << " of "
         << c.turned() << " from " << c.offset << (c.own_tables ? " by base" : "") << (c.hadamard ? " hadamard" : "") << ' '
         << name_of(c.layout) << " to " << name_of(c.out_layout) << (c.in_place ? " in place" : "") << " seed " << c.seed;
    return text.str();
}

template<typename T> struct RowsArrays {
    static constexpr std::int64_t table_positions = 100;
    static constexpr double base = 10000, scaling = 2, eps = 1e-5;
    RowsCase the;
    Array<T> x, out, grad_out, grad_x, weight;
    Array<float> weight_f32, cos, sin;
    Array<std::int32_t> positions;
    Array<Sum<T>> grad_weight;

    explicit RowsArrays(const RowsCase &c)
        : the(c), x({c.batch, c.heads, c.rows, c.head_dim}, c.layout),
          out({c.batch, c.heads, c.rows, c.head_dim}, c.out_layout, poison<T>(2)),
          grad_out({c.batch, c.heads, c.rows, c.head_dim}, c.out_layout),
          grad_x({c.batch, c.heads, c.rows, c.head_dim}, c.layout, poison<T>(2)), weight(of_weight()), weight_f32(of_weight()),
          cos({table_positions, c.turned() / 2}), sin({table_positions, c.turned() / 2}), positions({c.batch, c.rows}),
          grad_weight(of_weight(), dense_strides(of_weight()), poison<Sum<T>>(2)) {
        std::mt19937 random(c.seed);
        x.randomise(random, 1.7), grad_out.randomise(random, 1.3), weight.randomise(random, 1.5);
        weight_f32.randomise(random, 1.5);
        positions.each([&](std::int32_t &p) { p = std::int32_t(random() % table_positions); });
        if (c.pairs == Pairs::none) return;
        attune::Context context({.threads = 1});
        REQUIRE(attune::rope_tables(context, base, scaling, cos.view(), sin.view()).ok());
    }
    attune::RowSteps steps() {
        attune::RowSteps s;
        if (the.norm) s.norm_weight = placed(the.weight_is_f32 ? weight_f32.view() : weight.view()), s.norm_eps = eps;
        if (the.pairs != Pairs::none) {
            s.rope.pairs = the.pairs == Pairs::halves ? attune::RopePairs::halves : attune::RopePairs::interleaved;
            s.rope.dim = the.dim, s.rope.offset = the.offset;
            if (the.own_tables)
                s.rope.base = base, s.rope.scaling = scaling;
            else
                s.rope.cos = placed(cos.view()), s.rope.sin = placed(sin.view());
        }
        s.hadamard = the.hadamard;
        return s;
    }
    // A view of memory that the case has on a device.
    template<typename V> V placed(V view) const {
        view.place = the.place;
        return view;
    }
    attune::Status run(attune::Context &context) {
        return attune::transform_rows(context, placed(x.view()), placed(positions.view()),
                                      placed(the.in_place ? x.view() : out.view()), steps());
    }
    attune::Status run_backward(attune::Context &context) {
        return attune::transform_rows_backward(context, x.view(), positions.view(), grad_out.view(), grad_x.view(),
                                               the.norm ? grad_weight.view() : attune::View(), steps());
    }

    template<typename Real> RowDefinition<Real> definition(Index b, Index h, Index t) {
        RowDefinition<Real> how;
        for (Index d = 0; the.norm && d < the.head_dim; d++) {
            const Index at = (the.weight_by_head ? h : 0) * the.head_dim + d;
            how.weight.push_back(the.weight_is_f32 ? Real(weight_f32.data()[at]) : Real(weight.data()[at]));
        }
        how.eps = Real(Sum<T>(eps));
        const Index position = positions.data()[b * the.rows + t], pairs = the.turned() / 2;
        for (Index k = 0; k < pairs; k++) {
            how.cos.push_back(Real(cos.data()[position * pairs + k]));
            how.sin.push_back(Real(sin.data()[position * pairs + k]));
        }
        how.interleaved = the.pairs == Pairs::interleaved, how.offset = std::size_t(the.offset), how.hadamard = the.hadamard;
        return how;
    }
    template<typename Real> Row<Real> row_of(Array<T> &a, Index b, Index h, Index t) {
        Row<Real> row;
        for (Index d = 0; d < the.head_dim; d++) row.push_back(Real(a(b, h, t, d)));
        return row;
    }
    template<typename F> void each_row(const F &f) {
        for (Index b = 0; b < the.batch; b++)
            for (Index h = 0; h < the.heads; h++)
                for (Index t = 0; t < the.rows; t++) f(b, h, t);
    }
    template<typename Real> std::vector<Real> expected() {
        std::vector<Real> all;
        each_row([&](Index b, Index h, Index t) {
            const Row<Real> row = after_steps(row_of<Real>(x, b, h, t), definition<Real>(b, h, t));
            all.insert(all.end(), row.begin(), row.end());
        });
        return all;
    }
    template<typename Real> RowGradients<Real> expected_gradients() {
        RowGradients<Real> all{{}, {}, Row<Real>(std::size_t(the.head_dim * (the.weight_by_head ? the.heads : 1)))};
        each_row([&](Index b, Index h, Index t) {
            const RowGradients<Real> of_row =
                gradients_of_steps(row_of<Real>(x, b, h, t), row_of<Real>(grad_out, b, h, t), definition<Real>(b, h, t));
            all.x.insert(all.x.end(), of_row.x.begin(), of_row.x.end());
            all.first.insert(all.first.end(), of_row.first.begin(), of_row.first.end());
            for (std::size_t d = 0; d < of_row.weight.size(); d++)
                all.weight[std::size_t(the.weight_by_head ? h * the.head_dim : 0) + d] += of_row.weight[d];
        });
        return all;
    }

private:
    std::vector<std::int64_t> of_weight() const {
        if (the.weight_by_head) return {the.heads, the.head_dim};
        return {the.head_dim};
    }
};

// Runs a case and checks everything that it wrote.
template<typename T> void check_case(attune::Context &context, const RowsCase &c) {
    INFO(describe(c));
    RowsArrays<T> a(c);
    const auto reference = a.template expected<Reference<T>>();
    const auto plain = a.template expected<Sum<T>>();
    const attune::Status status = a.run(context);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    Array<T> &out = c.in_place ? a.x : a.out;
    const Verdict verdict = judge(reference, plain, out.values());
    INFO(verdict.why);
    CHECK(verdict.right);
    CHECK(out.gaps_untouched());
    if (!c.in_place) CHECK(out.all_written());
}
template<typename T> void check_gradients(attune::Context &context, const RowsCase &c) {
    INFO(describe(c));
    RowsArrays<T> a(c);
    const auto reference = a.template expected_gradients<Reference<T>>();
    const auto plain = a.template expected_gradients<Sum<T>>();
    const attune::Status status = a.run_backward(context);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    const Verdict of_x = judge(reference.x, plain.x, a.grad_x.values(), reference.first);
    INFO("grad_x: " << of_x.why);
    CHECK(of_x.right);
    CHECK(a.grad_x.gaps_untouched());
    if (!c.norm) return;
    const Verdict of_weight = judge(reference.weight, plain.weight, a.grad_weight.values());
    INFO("grad_weight: " << of_weight.why);
    CHECK(of_weight.right);
}

}  // namespace attune_test
