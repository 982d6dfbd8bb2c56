// SPDX-License-Identifier: MIT
// Gradients of attention over dense tensors: against the reference; the same bits for any threads and repeats.
#include "tests/fuzz/families/sdpa_draw.h"
#include "tests/support/sdpa_backward_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;

template<typename T> void run_typed(Draw &draw) {
    const std::vector<std::string> scores = {"dot_product", "general", "cosine", "gaussian"},
                                   ops = {"", "", "cosine_", "gaussian_"};
    const auto score = static_cast<attune::Score>(is_half<T> ? 0 : draw.one_of("score", scores, 5));
    const std::string op = score < attune::Score::cosine ? "sdpa_backward" : ops[std::size_t(score)] + "backward";
    const DrawnVariant variant = draw_variant(draw, op, attune::dtype_of<T>(), {"plain", "scored", "training"});
    const bool any = !variant.forced();
    SdpaBackwardCase c;
    c.forward = draw_attention(draw, {.scores = any || variant.kind != "plain",
                                      .dropout = any || variant.kind == "training",
                                      .weights = false,
                                      .head_dim = variant.head_dim,
                                      .budget = 800000});
    c.forward.score = score;
    if (score == attune::Score::general && !variant.head_dim) c.forward.key_dim = draw.number("key_dim", 1, 40);
    // Distances stay in the range where the weights do not underflow; the cosine of one channel has only rounding errors.
    if (score == attune::Score::gaussian) c.forward.scale = 1.0 / double(c.forward.head_dim);
    if (score == attune::Score::cosine) c.forward.head_dim = std::max<std::int64_t>(c.forward.head_dim, 2);
    c.grad_lse = draw.flag("grad_lse", 3), c.grad_layout = draw_layout(draw, "grad_layout", true);
    const unsigned wanted = draw.flag("few_gradients", 3) ? unsigned(draw.number("wanted", 1, want_all)) : unsigned(want_all);
    INFO(describe(c));
    const attune::ContextOptions options = draw_context(draw);
    const DrawnFence fence(draw);
    SdpaBackwardArrays<T> a(c);
    attune::Context context(options);
    const attune::Status forward = a.run_forward(context);
    check(forward.ok(), "forward was refused: " + forward.message());
    const Inputs inputs = inputs_of(a.forward), results(a.forward.out, a.forward.lse, a.grad_out, a.grad_lse);
    const attune::Status status = a.run(context, variant.name, wanted);
    inputs.check_unchanged(), results.check_unchanged();
    const auto untouched = [&] {
        bool all = true;
        a.each_gradient([&](const char *, unsigned, auto &array, auto) { all = all && array.untouched(); });
        return all;
    };
    const attune::SdpaGradients asked = a.gradients(wanted);
    const bool none = !asked.query.given() && !asked.key.given() && !asked.value.given() && !asked.bias.given() &&
                      !asked.alibi_slopes.given() && !asked.sinks.given() && !asked.score_weight.given();
    if (!ran(status, context, variant.forced() || none, untouched)) return;
    INFO("ran " << context.last_variant());
    check_none(defect(a, ExpectedGradients<T>(a), wanted));
    const std::size_t other = draw.one_of("again", {"no", "other_context", "all_gradients"}, 1);
    if (other == 0) return;
    SdpaBackwardArrays<T> again(c);
    attune::Context apart(draw_context(draw, "other_"));
    check(again.run_forward(apart).ok() && again.run(apart, variant.name, other == 1 ? wanted : unsigned(want_all)).ok(),
          "refused the second time");
    check(a.bits(wanted) == again.bits(wanted),
          other == 1 ? "other bits with another Context" : "other bits where all gradients are wanted");
}

}  // namespace

void run_gradients(Draw &draw) {
    with_any_type(draw, [&](auto zero) { run_typed<decltype(zero)>(draw); });
}

}  // namespace attune_fuzz
