// SPDX-License-Identifier: MIT
// One call of merge_attention as data, its arrays, and the check of its outputs.
#pragma once
#include "attune/merge.h"
#include "tests/reference/merge_reference.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include <limits>
#include <random>
#include <sstream>
#include <tuple>

namespace attune_test {

struct MergeCase {
    std::int64_t batch = 2, heads = 3, queries = 5, value_dim = 20;
    Layout layout_a = Layout::dense, layout_b = Layout::dense, out_layout = Layout::dense;
    bool strided_lse = false;  // (Sq, B, H) in memory, with gaps
    double lse_spread = 4;
    int in_place = 0;  // 1: out is out_a and lse is lse_a; 2: out_b, lse_b
    bool wants_lse = true;
    unsigned seed = 1;
};
inline std::string describe(const MergeCase &c) {
    std::ostringstream text;
    text << "B " << c.batch << " H " << c.heads << " Sq " << c.queries << " Dv " << c.value_dim << " layouts "
         << name_of(c.layout_a) << ' ' << name_of(c.layout_b) << ' ' << name_of(c.out_layout)
         << (c.strided_lse ? " strided lse" : "") << " lse spread " << c.lse_spread << " in place " << c.in_place << " seed "
         << c.seed;
    return text.str();
}

template<typename T> struct MergeArrays {
    MergeCase the;
    Array<T> out_a, out_b, out;
    Array<Sum<T>> lse_a, lse_b, lse;

    explicit MergeArrays(const MergeCase &c)
        : the(c), out_a({c.batch, c.heads, c.queries, c.value_dim}, c.layout_a),
          out_b({c.batch, c.heads, c.queries, c.value_dim}, c.layout_b),
          out({c.batch, c.heads, c.queries, c.value_dim}, c.out_layout, poison<T>(2)), lse_a(of_rows(1)), lse_b(of_rows(1)),
          lse(of_rows(2)) {
        std::mt19937 random(c.seed);
        out_a.randomise(random, 1.7), out_b.randomise(random, 1.7);
        lse_a.randomise(random, c.lse_spread), lse_b.randomise(random, c.lse_spread);
    }
    attune::Status run(attune::Context &context) {
        Array<T> &to = the.in_place == 1 ? out_a : the.in_place == 2 ? out_b : out;
        Array<Sum<T>> &lse_to = the.in_place == 1 ? lse_a : the.in_place == 2 ? lse_b : lse;
        return attune::merge_attention(context, out_a.view(), lse_a.view(), out_b.view(), lse_b.view(), to.view(),
                                       the.wants_lse ? lse_to.view() : attune::View());
    }
    // Makes one part of some rows empty, with NaN as its values.
    void empty_some_rows() {
        const Sum<T> minus_infinity = -std::numeric_limits<Sum<T>>::infinity();
        const T nan = std::numeric_limits<T>::quiet_NaN();
        std::int64_t n = 0;
        for (std::int64_t b = 0; b < the.batch; b++)
            for (std::int64_t h = 0; h < the.heads; h++)
                for (std::int64_t i = 0; i < the.queries; i++, n++)
                    for (auto [lse_of, out_of, every] : {std::tuple(&lse_a, &out_a, 3), {&lse_b, &out_b, 4}})
                        if (n % every == 0) {
                            (*lse_of)(b, h, i) = minus_infinity;
                            for (std::int64_t d = 0; d < the.value_dim; d++) (*out_of)(b, h, i, d) = nan;
                        }
    }

private:
    Array<Sum<T>> of_rows(int filled) const {
        const auto fill = poison<Sum<T>>(filled);
        const std::vector<std::int64_t> extents = {the.batch, the.heads, the.queries};
        if (!the.strided_lse) return Array<Sum<T>>(extents, dense_strides(extents), fill);
        return Array<Sum<T>>(extents, {2 * the.heads, 2, 2 * the.batch * the.heads + 3}, fill);
    }
};

// Runs a case and checks everything that it wrote.
template<typename T> void check_case(attune::Context &context, const MergeCase &c, bool some_empty = false) {
    INFO(describe(c));
    MergeArrays<T> a(c);
    if (some_empty) a.empty_some_rows();
    const auto merged = [&](auto real) {
        return merge_reference<decltype(real), T>(a.out_a.view(), a.lse_a.view(), a.out_b.view(), a.lse_b.view());
    };
    const auto reference = merged(Reference<T>());
    const auto plain = merged(Sum<T>());
    const attune::Status status = a.run(context);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    Array<T> &out = c.in_place == 1 ? a.out_a : c.in_place == 2 ? a.out_b : a.out;
    Array<Sum<T>> &lse = c.in_place == 1 ? a.lse_a : c.in_place == 2 ? a.lse_b : a.lse;
    const Verdict of_out = judge(reference.out, plain.out, out.values());
    INFO("out: " << of_out.why);
    CHECK(of_out.right);
    CHECK(out.gaps_untouched());
    if (c.in_place == 0) CHECK(out.all_written());
    if (!c.wants_lse) {
        CHECK(a.lse.untouched());
        return;
    }
    const Verdict of_lse = judge(reference.lse, plain.lse, lse.values());
    INFO("lse: " << of_lse.why);
    CHECK(of_lse.right);
    CHECK(lse.gaps_untouched());
}

}  // namespace attune_test
