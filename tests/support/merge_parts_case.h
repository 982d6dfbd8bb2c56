// SPDX-License-Identifier: MIT
// One call of merge_attention with any number of parts as data, its arrays, and the check of its outputs.
#pragma once
#include "tests/support/merge_case.h"

namespace attune_test {

struct MergePartsCase {
    std::size_t parts = 3;
    std::int64_t batch = 2, heads = 3, queries = 5, value_dim = 20;
    std::vector<Layout> layouts = {Layout::dense};  // of the parts, again and again
    Layout out_layout = Layout::dense;
    bool strided_lse = false;
    double lse_spread = 4;
    int in_place = -1;  // the part whose out and lse are the outputs
    bool wants_lse = true, some_empty = false;
    attune::Place place = attune::Place::host;
    unsigned seed = 1;
};
inline std::string describe(const MergePartsCase &c) {
    std::ostringstream text;
    text << "parts " << c.parts << " B " << c.batch << " H " << c.heads << " Sq " << c.queries << " Dv " << c.value_dim
         << " lse spread " << c.lse_spread << " in place " << c.in_place << (c.some_empty ? " some empty" : "")
         << (c.strided_lse ? " strided lse" : "") << " seed " << c.seed;
    return text.str();
}

template<typename T> struct MergePartsArrays {
    MergePartsCase the;
    std::vector<Array<T>> outs;
    std::vector<Array<Sum<T>>> lses;
    Array<T> out;
    Array<Sum<T>> lse;

    explicit MergePartsArrays(const MergePartsCase &c)
        : the(c), out({c.batch, c.heads, c.queries, c.value_dim}, c.out_layout, poison<T>(2)), lse(of_rows(2)) {
        std::mt19937 random(c.seed);
        for (std::size_t n = 0; n < c.parts; n++) {
            outs.emplace_back(Array<T>({c.batch, c.heads, c.queries, c.value_dim}, c.layouts[n % c.layouts.size()]));
            lses.push_back(of_rows(1));
            outs[n].randomise(random, 1.7), lses[n].randomise(random, c.lse_spread);
            if (c.some_empty) empty_some_rows(n);
        }
    }
    std::vector<attune::PartialAttention> parts() {
        std::vector<attune::PartialAttention> all;
        for (std::size_t n = 0; n < the.parts; n++) all.push_back({placed(outs[n].view()), placed(lses[n].view())});
        return all;
    }
    attune::View placed(attune::View v) const {
        v.place = the.place;
        return v;
    }
    Array<T> &result() { return the.in_place < 0 ? out : outs[std::size_t(the.in_place)]; }
    Array<Sum<T>> &result_lse() { return the.in_place < 0 ? lse : lses[std::size_t(the.in_place)]; }
    attune::Status run(attune::Context &context) {
        const auto all = parts();
        return attune::merge_attention(context, all.data(), all.size(), placed(result().view()),
                                       the.wants_lse ? placed(result_lse().view()) : attune::View());
    }

private:
    // Rows of NaN without keys: of the first row all parts, of others every few.
    void empty_some_rows(std::size_t part) {
        std::int64_t row = 0;
        for (std::int64_t b = 0; b < the.batch; b++)
            for (std::int64_t h = 0; h < the.heads; h++)
                for (std::int64_t i = 0; i < the.queries; i++, row++) {
                    // In row 1 no part but the last has keys.
                    const bool empty = row == 0 || (row == 1 && part + 1 < the.parts) || (row + std::int64_t(part)) % 3 == 0;
                    if (!empty) continue;
                    const T nan = std::numeric_limits<T>::quiet_NaN();
                    lses[part](b, h, i) = -std::numeric_limits<Sum<T>>::infinity();
                    for (std::int64_t d = 0; d < the.value_dim; d++) outs[part](b, h, i, d) = nan;
                }
    }
    Array<Sum<T>> of_rows(int filled) const {
        const auto fill = poison<Sum<T>>(filled);
        const std::vector<std::int64_t> extents = {the.batch, the.heads, the.queries};
        if (!the.strided_lse) return Array<Sum<T>>(extents, dense_strides(extents), fill);
        return Array<Sum<T>>(extents, {2 * the.heads, 2, 2 * the.batch * the.heads + 3}, fill);
    }
};

// Runs a case and checks everything that it wrote.
template<typename T> void check_case(attune::Context &context, const MergePartsCase &c) {
    INFO(describe(c));
    MergePartsArrays<T> a(c);
    const auto reference = merge_reference<Reference<T>, T>(a.parts());
    const auto plain = merge_reference<Sum<T>, T>(a.parts());
    const attune::Status status = a.run(context);
    INFO("ran " << context.last_variant() << ' ' << status.message());
    REQUIRE(status.ok());
    const Verdict of_out = judge(reference.out, plain.out, a.result().values());
    INFO("out: " << of_out.why);
    CHECK(of_out.right);
    CHECK(a.result().gaps_untouched());
    if (c.in_place < 0) CHECK(a.out.all_written());
    if (!c.wants_lse) {
        CHECK(a.lse.untouched());
        return;
    }
    const Verdict of_lse = judge(reference.lse, plain.lse, a.result_lse().values());
    INFO("lse: " << of_lse.why);
    CHECK(of_lse.right);
    CHECK(a.result_lse().gaps_untouched());
}

}  // namespace attune_test
