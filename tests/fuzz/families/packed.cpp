// SPDX-License-Identifier: MIT
// Packed batches: each sequence has the bits of its own call, and gradients are those of the reference.
#include "tests/fuzz/family.h"
#include "tests/support/packed_backward_case.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;

PackedCase draw_packed(Draw &draw, std::int32_t most_queries, std::int32_t most_keys) {
    PackedCase c;
    c.seed = draw.seed();
    const std::int64_t count = draw.number("sequences", 1, 8);
    for (std::int64_t s = 0; s < count; s++) {
        c.queries.push_back(std::int32_t(draw.number("queries" + std::to_string(s), 0, most_queries)));
        c.keys.push_back(std::int32_t(draw.number("keys" + std::to_string(s), 0, most_keys)));
    }
    c.key_heads = draw.number("key_heads", 1, 3), c.query_heads = c.key_heads * draw.number("group", 1, 4);
    const std::size_t width = draw.one_of("head_dim", {"any", "64", "96", "128"}, 2);
    c.head_dim = c.value_dim = width ? std::int64_t(32 + 32 * width) : draw.number("channels", 1, 40);
    if (width == 0 && draw.flag("other_value_dim", 3)) c.value_dim = draw.number("value_dim", 1, 40);
    c.spare_rows = draw.number("spare_rows", 0, 3), c.heads_first = draw.flag("heads_first");
    return c;
}

}  // namespace

void run_varlen(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        const PackedCase c = draw_packed(draw, 130, 300);
        OptionsOfSequences given;
        attune::SdpaOptions o =
            given.options(unsigned(draw.number("options", 0, 400)), std::int64_t(c.queries.size()), c.query_heads);
        if (is_half<T>) o.score = attune::Score::dot_product;
        o.invariant = o.score == attune::Score::dot_product && draw.flag("invariant", 6);
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        check_packed<T>(context, c, o);
    });
}

void run_varlen_gradients(Draw &draw) {
    with_any_type(draw, [&](auto zero) {
        using T = decltype(zero);
        const PackedCase c = draw_packed(draw, 60, 90);
        OptionsOfSequences given;
        attune::SdpaOptions o =
            given.options(unsigned(draw.number("options", 0, 400)), std::int64_t(c.queries.size()), c.query_heads);
        if (is_half<T> || o.score != attune::Score::dot_product) o.score = attune::Score::dot_product, o.scale.reset();
        attune::Context context(draw_context(draw));
        const DrawnFence fence(draw);
        PackedBackwardArrays<T> a(c, o, draw.flag("grad_lse"));
        INFO(describe(c));
        const attune::Status forward = a.run_forward(context);
        check(forward.ok(), "forward was refused: " + forward.message());
        const Inputs inputs(a.forward.query, a.forward.key, a.forward.value, a.forward.out, a.forward.lse, a.grad_out,
                            a.grad_lse);
        const attune::Status status = a.run(context);
        check(status.ok(), "refused: " + status.message());
        inputs.check_unchanged();
        check_none(defect(a));
        if (draw.flag("alone", 3)) check_packed_backward<T>(context, c, o);
    });
}

}  // namespace attune_fuzz
