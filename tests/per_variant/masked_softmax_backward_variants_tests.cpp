// SPDX-License-Identifier: MIT
// Every variant of masked_softmax_backward, at sizes made from its block of keys and rows of a task.
#include "tests/support/masked_softmax_backward_case.h"
#include "tests/support/variant_grid.h"

using namespace attune_test;
using attune::MaskFill;

namespace {
template<typename F> void for_each_softmax_backward(const F &f) { for_each_wide_variant("masked_softmax_backward", {""}, f); }
}  // namespace

TEST_CASE("masked_softmax_backward variants: sizes, lengths, fills", "[masked_softmax_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax_backward([&](const attune::VariantInfo &v, auto zero) {
        const int rows = parameter_of(v, "task_rows", 4), block = parameter_of(v, "block", 16);
        unsigned seed = 1;
        for (std::int64_t keys :
             sorted_sizes({1, 2, 3, 7, 13, block - 1, block, block + 1, 2 * block - 1, 3 * block, 5 * block + 7, 251}))
            for (std::int64_t queries : {1, 2, rows, rows + 1})
                for (Lengths lengths : {Lengths::none, Lengths::per_batch, Lengths::per_query})
                    for (MaskFill fill : {MaskFill::zero, MaskFill::seed})
                        check_backward<decltype(zero)>(
                            context, {.queries = queries, .keys = keys, .lengths = lengths, .fill = fill, .seed = seed++},
                            v.name);
        for (const auto &[batch, heads, queries] : {std::tuple(33, 1, 1), {3, 21, 1}, {1, 1, 1}, {1, 1, 40}, {7, 5, 3}})
            check_backward<decltype(zero)>(
                context, {.batch = batch, .heads = heads, .queries = queries, .keys = 45, .seed = seed++}, v.name);
        for (double spread : {0., 1e-3, 100., 1e4})
            for (MaskFill fill : {MaskFill::zero, MaskFill::seed})
                check_backward<decltype(zero)>(context, {.keys = 70, .fill = fill, .spread = spread}, v.name);
    });
}

TEST_CASE("masked_softmax_backward variants: layouts, and in place of each input", "[masked_softmax_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax_backward([&](const attune::VariantInfo &v, auto zero) {
        const int block = parameter_of(v, "block", 16);
        unsigned seed = 1;
        for (std::int64_t keys : {9, 2 * block, 2 * block + 5})
            for (Layout layout :
                 {Layout::dense, Layout::bshd, Layout::padded, Layout::fused, Layout::shifted, Layout::reversed})
                for (Into into : {Into::its_own, Into::grad_out, Into::out}) {
                    SoftmaxCase c{.queries = 6, .keys = keys, .scores_layout = layout, .out_layout = layout, .seed = seed++};
                    check_backward<decltype(zero)>(context, c, v.name, into);
                    c.out_layout = layout == Layout::padded ? Layout::bshd : Layout::padded;
                    check_backward<decltype(zero)>(context, c, v.name, into);
                }
    });
}

TEST_CASE("masked_softmax_backward variants: NaN makes its row NaN and no other", "[masked_softmax_backward][per_variant]") {
    attune::Context context(in_fenced_scratch());
    for_each_softmax_backward([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        for (std::int64_t keys : {5, 70}) {
            const SoftmaxCase c{.batch = 1, .heads = 1, .keys = keys, .lengths = Lengths::none};
            SoftmaxBackwardArrays<T> clean(c), spoiled(c);
            spoiled.grad_out(0, 0, 1, keys - 1) = std::numeric_limits<T>::quiet_NaN();
            spoiled.forward.out(0, 0, 3, 2) = std::numeric_limits<T>::quiet_NaN();
            REQUIRE(clean.run(context, v.name).ok());
            REQUIRE(spoiled.run(context, v.name).ok());
            for (std::int64_t i = 0; i < c.queries; i++)
                for (std::int64_t j = 0; j < keys; j++) {
                    const T x = spoiled.grad_scores(0, 0, i, j);
                    if (i == 1 || i == 3)
                        CHECK(std::isnan(x));
                    else
                        CHECK(same_bits(x, clean.grad_scores(0, 0, i, j)));
                }
        }
    });
}

TEST_CASE("masked_softmax_backward variants: the same bits over 1, 2, 3 and 7 threads, and of an entry alone",
          "[masked_softmax_backward][runtime][per_variant]") {
    attune::Context one({.threads = 1}), two({.threads = 2}), three({.threads = 3}), seven({.threads = 7});
    for_each_softmax_backward([&](const attune::VariantInfo &v, auto zero) {
        using T = decltype(zero);
        SoftmaxBackwardArrays<T> expected({.queries = 150, .keys = 200});
        REQUIRE(expected.run(one, v.name).ok());
        for (attune::Context *context : {&two, &three, &seven, &seven}) {
            SoftmaxBackwardArrays<T> other(expected.forward.c);
            REQUIRE(other.run(*context, v.name).ok());
            CHECK(same_bits(other.grad_scores.values(), expected.grad_scores.values()));
        }
        // Batch entry 1.
        SoftmaxBackwardArrays<T> alone(expected.forward.c);
        const auto entry = [](attune::View view) {
            view.data = static_cast<T *>(view.data) + view.stride[0], view.extent[0] = 1;
            return view;
        };
        attune::View lens = alone.forward.lens.view();
        lens.data = static_cast<std::int32_t *>(lens.data) + lens.stride[0], lens.extent[0] = 1;
        REQUIRE(attune::masked_softmax_backward(two, entry(alone.forward.out.view()), entry(alone.grad_out.view()),
                                                entry(alone.grad_scores.view()), {.valid_lens = lens, .variant = v.name})
                    .ok());
        const std::vector<T> all = expected.grad_scores.values(), some = alone.grad_scores.values();
        const auto half = std::ptrdiff_t(all.size() / 2);
        CHECK(same_bits(std::vector(all.begin() + half, all.end()), std::vector(some.begin() + half, some.end())));
    });
}
