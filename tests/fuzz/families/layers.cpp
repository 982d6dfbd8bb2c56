// SPDX-License-Identifier: MIT
// Additive attention and the multi-head layer, with their gradients, against the references.
#include "tests/fuzz/families/sdpa_draw.h"
#include "tests/support/additive_backward_case.h"
#include "tests/support/multi_head_backward_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;

AdditiveCase draw_additive(Draw &draw, const Allowed &allowed) {
    AdditiveCase c;
    c.hidden = draw.number("hidden", 1, 60);
    Allowed within = allowed;
    within.budget = allowed.budget / c.hidden;
    c.w_query = draw.flag("w_query"), c.w_key = draw.flag("w_key"), c.w_score = draw.flag("w_score");
    // In f32 without projections the error is judged by the bound of the header, which is one of the raw score alone.
    within.scores = c.projects();
    c.attention = draw_attention(draw, within);
    c.attention.key_dim = draw.number("key_dim", 1, 40), c.attention.spread = 1.7;
    c.b_query = c.w_query && draw.flag("b_query"), c.b_key = c.w_key && draw.flag("b_key");
    if (draw.flag("b_score", 3)) c.b_score = 0.7;
    return c;
}

MultiHeadCase draw_layer(Draw &draw, const Allowed &allowed) {
    MultiHeadCase c;
    c.attention = draw_attention(draw, allowed);
    c.attention.head_dim = std::min<std::int64_t>(c.attention.head_dim, 70);
    c.attention.value_dim = std::min<std::int64_t>(c.attention.value_dim, 70);
    c.query_width = draw.number("query_width", 1, 70), c.key_width = draw.number("key_width", 1, 70);
    c.value_width = draw.number("value_width", 1, 70), c.out_width = draw.number("out_width", 1, 70);
    c.query_bias = draw.flag("query_bias"), c.key_bias = draw.flag("key_bias");
    c.value_bias = draw.flag("value_bias"), c.out_bias = draw.flag("out_bias");
    c.packed = draw.flag("packed", 3), c.strided = draw.flag("strided", 3);
    return c;
}

template<typename Arrays> void check_forward(Draw &draw, Arrays &a, Arrays &again, auto &out, auto &other) {
    attune::Context context(draw_context(draw)), apart(draw_context(draw, "other_"));
    const attune::Status status = a.run(context);
    check(status.ok(), "refused: " + status.message());
    INFO("ran " << context.last_variant());
    check_none(defect(a));
    check(again.run(apart).ok(), "refused the second time");
    check(same_bits(out.values(), other.values()), "other bits with another Context");
}

}  // namespace

void run_additive(Draw &draw) {
    with_type<float, double>(draw, [&](auto zero) {
        using T = decltype(zero);
        const AdditiveCase c = draw_additive(draw, {.empty = false, .budget = 20000000});
        INFO(describe(c));
        const DrawnFence fence(draw);
        AdditiveArrays<T> a(c), again(c);
        const Inputs inputs = inputs_of(a.base), weights(a.w_query, a.w_key, a.b_query, a.b_key, a.w_score);
        check_forward(draw, a, again, a.base.out, again.base.out);
        inputs.check_unchanged(), weights.check_unchanged();
    });
}

void run_additive_gradients(Draw &draw) {
    with_type<float, double>(draw, [&](auto zero) {
        using T = decltype(zero);
        AdditiveBackwardCase c{.forward = draw_additive(draw, {.weights = false, .empty = false, .budget = 6000000})};
        c.grad_lse = draw.flag("grad_lse", 3), c.grad_layout = draw_layout(draw, "grad_layout", true);
        INFO(describe(c));
        attune::Context context(draw_context(draw)), apart(draw_context(draw, "other_"));
        const DrawnFence fence(draw);
        AdditiveBackwardArrays<T> a(c), again(c);
        check(a.run_forward(context).ok() && again.run_forward(apart).ok(), "forward was refused");
        const attune::Status status = a.run(context);
        check(status.ok(), "refused: " + status.message());
        check_none(defect(a));
        check(again.run(apart).ok(), "refused the second time");
        check(a.bits() == again.bits(), "other bits with another Context");
    });
}

void run_multi_head(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        MultiHeadCase c = draw_layer(draw, {.empty = false, .budget = 1000000});
        c.self = draw.flag("self", 4) && c.attention.valid_lens.empty();
        if (c.self) c.attention.keys = c.attention.queries;
        INFO(describe(c));
        const DrawnFence fence(draw);
        MultiHeadArrays<T> a(c), again(c);
        check_forward(draw, a, again, a.out, again.out);
    });
}

void run_multi_head_gradients(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        MultiHeadCase c = draw_layer(draw, {.weights = false, .empty = false, .budget = 400000});
        // Weights are recomputed from lse, as FlashAttention-2 does, and have its rounding: more than the plain computation's
        // where scores are large.
        c.attention.scale.reset();
        const unsigned wanted =
            draw.flag("few_gradients", 3) ? unsigned(draw.number("wanted", 1, 0x7f)) : unsigned(want_everything);
        INFO(describe(c));
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        MultiHeadBackwardArrays<T> a(c);
        const attune::Status status = a.run(context, {}, wanted);
        check(status.ok(), "refused: " + status.message());
        INFO("ran " << context.last_variant());
        check_none(defect(a, wanted));
    });
}

}  // namespace attune_fuzz
