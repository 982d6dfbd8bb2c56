// SPDX-License-Identifier: MIT
// One call of masked_softmax as data, random scores for it, and its check. Masked scores are NaN, which must have no effect.
#pragma once
#include "attune/masked_softmax.h"
#include "tests/reference/masked_softmax_reference.h"
#include "tests/support/array.h"
#include "tests/support/catch.h"
#include "tests/support/error_rule.h"
#include <limits>
#include <ostream>
#include <random>

namespace attune_test {

enum class Lengths { none, per_batch, per_query };

struct SoftmaxCase {
    std::int64_t batch = 2, heads = 2, queries = 5, keys = 7;
    Lengths lengths = Lengths::per_query;
    attune::MaskFill fill = attune::MaskFill::zero;
    double spread = 4;  // scores are uniform in +-spread
    Layout scores_layout = Layout::dense, out_layout = Layout::dense;
    bool in_place = false;
    attune::Place place = attune::Place::host;  // given place of its tensors
    unsigned seed = 1;
};
inline std::ostream &operator<<(std::ostream &o, const SoftmaxCase &c) {
    return o << "b " << c.batch << " h " << c.heads << " q " << c.queries << " k " << c.keys << " lengths " << int(c.lengths)
             << " fill " << int(c.fill) << " spread " << c.spread << " layouts " << name_of(c.scores_layout) << " "
             << name_of(c.out_layout) << (c.in_place ? " in place" : "") << " seed " << c.seed;
}

template<typename T> struct SoftmaxArrays {
    SoftmaxCase c;
    Array<T> scores, out;
    Array<std::int32_t> lens;

    explicit SoftmaxArrays(const SoftmaxCase &given)
        : c(given), scores({c.batch, c.heads, c.queries, c.keys}, c.scores_layout),
          out({c.batch, c.heads, c.queries, c.keys}, c.out_layout), lens({c.batch, c.queries}) {
        std::mt19937 random(c.seed);
        scores.randomise(random, c.spread);
        int n = 0;
        lens.each([&](std::int32_t &x) {
            // The first row has no key, the second every key.
            x = n == 0 ? 0 : n == 1 ? std::int32_t(c.keys) : std::int32_t(random() % unsigned(c.keys + 1));
            n++;
        });
        if (c.lengths == Lengths::none) return;
        for (std::int64_t b = 0; b < c.batch; b++)
            for (std::int64_t h = 0; h < c.heads; h++)
                for (std::int64_t i = 0; i < c.queries; i++)
                    for (std::int64_t j = length(b, i); j < c.keys; j++)
                        scores(b, h, i, j) = std::numeric_limits<T>::quiet_NaN();
    }
    std::int64_t length(std::int64_t b, std::int64_t i) {
        if (c.lengths == Lengths::none) return c.keys;
        return lens.data()[b * c.queries + (c.lengths == Lengths::per_query ? i : 0)];
    }
    attune::MaskedSoftmaxOptions options(std::string_view variant) {
        attune::ConstView view;
        if (c.lengths == Lengths::per_query) view = lens.view();
        if (c.lengths == Lengths::per_batch) view = attune::ConstView(lens.data(), {c.batch}, {c.queries});
        return {.valid_lens = view, .fill = c.fill, .variant = variant};
    }
};

// Runs the case and checks it; inputs and gaps must be unchanged.
template<typename T> void check_case(attune::Context &context, const SoftmaxCase &c, std::string_view variant = {}) {
    INFO(c);
    SoftmaxArrays<T> a(c);
    auto options = a.options(variant);
    const auto reference = masked_softmax_reference<Reference<T>, T>(a.scores.view(), options);
    const auto plain = masked_softmax_reference<T, T>(a.scores.view(), options);
    const std::vector<T> before = a.scores.values();
    Array<T> &out = c.in_place ? a.scores : a.out;
    const auto there = [&](auto view) {
        view.place = c.place;
        return view;
    };
    options.valid_lens = there(options.valid_lens);
    const auto status = attune::masked_softmax(context, there(a.scores.view()), there(out.view()), options);
    INFO(status.message());
    REQUIRE(status.ok());
    const Verdict verdict = judge(reference, plain, out.values());
    INFO(verdict.why);
    CHECK(verdict.right);
    CHECK(out.gaps_untouched());
    if (c.in_place) return;
    CHECK(out.all_written());
    CHECK(same_bits(a.scores.values(), before));
}

}  // namespace attune_test
