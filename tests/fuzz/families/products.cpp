// SPDX-License-Identifier: MIT
// Products, masked softmax, merges and dropout masks.
#include "tests/fuzz/family.h"
#include "tests/reference/philox_reference.h"
#include "tests/support/linear_backward_case.h"
#include "tests/support/masked_softmax_backward_case.h"
#include "tests/support/merge_parts_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;

LinearCase draw_product(Draw &draw, std::int64_t budget) {
    LinearCase c;
    c.seed = draw.seed();
    c.depth = draw.number("depth", 1, 600),
    c.columns = draw.number("columns", 1, std::min<std::int64_t>(400, budget / c.depth));
    const std::int64_t rows = budget / (c.depth * c.columns), rank = draw.number("leading_rank", 1, 3);
    c.leading.clear();
    for (std::int64_t n = 0, left = rows; n < rank; n++) {
        const std::int64_t extent = draw.number("leading" + std::to_string(n), 1, std::min<std::int64_t>(left, n ? 30 : 5));
        c.leading.push_back(extent), left = std::max<std::int64_t>(left / extent, 1);
    }
    if (rank == 1) c.leading[0] = draw.number("rows", 1, std::min<std::int64_t>(rows, 300));
    c.bias = draw.flag("bias"),
    c.order = static_cast<Order>(draw.one_of("order", {"dense", "padded", "reversed", "swapped"}, 2));
    return c;
}

}  // namespace

void run_linear(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        LinearCase c = draw_product(draw, 2000000);
        const bool batched = draw.flag("batch_dot", 3);
        if (batched && c.leading.size() == 1) c.leading.insert(c.leading.begin(), 1);
        c.packed = !batched && draw.flag("packed", 4);
        const DrawnVariant variant = draw_variant(draw,
                                                  batched    ? "batch_dot"
                                                  : c.packed ? "linear_packed"
                                                             : "linear",
                                                  attune::dtype_of<T>(), {""});
        INFO((batched ? "batch_dot " : "linear ") << describe(c));
        const attune::ContextOptions options = draw_context(draw);
        const DrawnFence fence(draw);
        LinearArrays<T> a(c, batched), again(c, batched);
        attune::Context context(options), apart(draw_context(draw, "other_"));
        const Inputs inputs(a.x, a.weight, a.bias);
        const attune::Status status = a.run(context, variant.name);
        inputs.check_unchanged();
        if (!ran(status, context, variant.forced(), [&] { return a.out.untouched(); })) return;
        INFO("ran " << context.last_variant());
        check_none(defect(a));
        check(again.run(apart, variant.name).ok(), "refused the second time");
        check(same_bits(a.out.values(), again.out.values()), "other bits with another Context");
    });
}

void run_linear_gradients(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        const LinearCase c = draw_product(draw, 1000000);
        const unsigned wanted =
            draw.flag("few_gradients", 3) ? unsigned(draw.number("wanted", 1, want_layer)) : unsigned(want_layer);
        INFO("linear_backward " << describe(c) << " wanted " << wanted);
        attune::Context context(draw_context(draw)), apart(draw_context(draw, "other_"));
        const DrawnFence fence(draw);
        LinearBackwardArrays<T> a(c), again(c);
        const Inputs inputs(a.layer.x, a.layer.weight, a.grad_out);
        const attune::Status status = a.run(context, {}, wanted);
        check(status.ok(), "refused: " + status.message());
        inputs.check_unchanged();
        check_none(defect(a, wanted));
        check(again.run(apart, {}, wanted).ok(), "refused the second time");
        check(same_bits(a.grad_x.values(), again.grad_x.values()) &&
                  same_bits(a.grad_weight.values(), again.grad_weight.values()) &&
                  same_bits(a.grad_bias.values(), again.grad_bias.values()),
              "other bits with another Context");
    });
}

void run_softmax(Draw &draw) {
    with_type<float, double>(draw, [&](auto zero) {
        using T = decltype(zero);
        SoftmaxCase c;
        c.seed = draw.seed();
        c.batch = draw.number("batch", 1, 3), c.heads = draw.number("heads", 1, 3);
        c.queries = draw.number("queries", 1, 60), c.keys = draw.number("keys", 1, 700);
        c.lengths = static_cast<Lengths>(draw.one_of("lengths", {"none", "per_batch", "per_query"}));
        c.fill = draw.flag("fill_seed", 3) ? attune::MaskFill::seed : attune::MaskFill::zero;
        constexpr double spreads[] = {4, 0.01, 80};
        c.spread = spreads[draw.one_of("spread", {"one", "small", "large"}, 3)];
        c.scores_layout = draw_layout(draw, "scores_layout", true), c.out_layout = draw_layout(draw, "out_layout", true);
        c.in_place = draw.flag("in_place", 4);
        const DrawnVariant variant = draw_variant(draw, "masked_softmax", attune::dtype_of<T>(), {""});
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        if (draw.flag("gradients", 3)) return check_backward<T>(context, c);
        check_case<T>(context, c, variant.name);
    });
}

void run_merge(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        MergePartsCase c;
        c.seed = draw.seed(), c.parts = std::size_t(draw.number("parts", 1, 20));
        c.batch = draw.number("batch", 1, 3), c.heads = draw.number("heads", 1, 4), c.queries = draw.number("queries", 1, 30);
        c.value_dim = draw.number("value_dim", 1, 200);
        c.layouts = {draw_layout(draw, "layout0", true), draw_layout(draw, "layout1", true)};
        c.out_layout = draw_layout(draw, "out_layout", true), c.strided_lse = draw.flag("strided_lse", 3);
        constexpr double spreads[] = {4, 0.01, 300};
        c.lse_spread = spreads[draw.one_of("lse_spread", {"one", "small", "large"}, 3)];
        c.in_place = int(draw.number("in_place", -1, draw.flag("is_in_place", 4) ? std::int64_t(c.parts) - 1 : -1));
        c.wants_lse = !draw.flag("no_lse", 4), c.some_empty = draw.flag("some_empty", 3);
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        check_case<T>(context, c);
    });
}

void run_dropout_mask(Draw &draw) {
    const std::int64_t batch = draw.number("batch", 1, 3), heads = draw.number("heads", 1, 4);
    const std::int64_t queries = draw.number("queries", 1, 60), keys = draw.number("keys", 1, 400);
    constexpr double probabilities[] = {0, 0.3, 1e-9, 0.999, 1};
    attune::Dropout dropout;
    dropout.probability = probabilities[draw.one_of("probability", {"0", "0.3", "tiny", "large", "1"})];
    dropout.seed = std::uint64_t(draw.seed()) * 0x9e3779b97f4a7c15ull,
    dropout.offset = std::uint32_t(draw.number("offset", 0, 5));
    attune::Context context(draw_context(draw));
    const DrawnFence fence(draw);
    Array<bool> mask({batch, heads, queries, keys}, draw_layout(draw, "layout", true));
    const attune::Status status = attune::dropout_mask(context, dropout, mask.view());
    check(status.ok(), "refused: " + status.message());
    check(mask.gaps_untouched(), "written beyond the mask");
    for (std::int64_t b = 0; b < batch; b++)
        for (std::int64_t h = 0; h < heads; h++)
            for (std::int64_t i = 0; i < queries; i++)
                for (std::int64_t j = 0; j < keys; j++)
                    check(reinterpret_cast<const unsigned char &>(mask(b, h, i, j)) ==
                              (unsigned char)(kept_by_dropout(dropout, heads, b, h, i, j)),
                          "another bit at key " + std::to_string(j));
}

}  // namespace attune_fuzz
