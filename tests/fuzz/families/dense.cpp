// SPDX-License-Identifier: MIT
// Attention over dense tensors: against the reference, and the calls that must give the same bits or the same numbers.
#include "attune/merge.h"
#include "tests/fuzz/families/sdpa_draw.h"

namespace attune_fuzz {
namespace {
using namespace attune_test;
using attune::ConstView;

// Whether two calls of a case gave the same bits.
template<typename T> void check_same_bits(SdpaArrays<T> &a, SdpaArrays<T> &other, const char *what) {
    check(same_bits(a.out.values(), other.out.values()), std::string("out: other bits ") + what);
    check(same_bits(a.lse.values(), other.lse.values()), std::string("lse: other bits ") + what);
    if (a.the.weights) check(same_bits(a.weights.values(), other.weights.values()), std::string("weights: other bits ") + what);
}

// The first batch entry alone has its bits.
template<typename V> V first_entry(V v, bool has_batch = true) {
    if (v.given() && has_batch) v.extent[0] = 1;
    return v;
}
template<typename T> void check_first_entry(attune::Context &context, SdpaArrays<T> &a, std::string_view variant) {
    SdpaArrays<T> alone(a.the);
    attune::SdpaOptions o = alone.options(variant);
    o.bias = first_entry(o.bias, o.bias.rank == 4), o.mask = first_entry(o.mask, o.mask.rank == 4);
    o.offsets = first_entry(o.offsets), o.valid_lens = first_entry(o.valid_lens);
    o.alibi_slopes = first_entry(o.alibi_slopes, o.alibi_slopes.rank == 2);
    o.lse = first_entry(o.lse), o.weights = first_entry(o.weights);
    const attune::Status status =
        attune::scaled_dot_product_attention(context, first_entry(alone.query.view()), first_entry(alone.key.view()),
                                             first_entry(alone.value.view()), first_entry(alone.out.view()), o);
    check(status.ok(), "entry 0 alone was refused: " + status.message());
    for (std::int64_t h = 0; h < a.the.query_heads; h++)
        for (std::int64_t i = 0; i < a.the.queries; i++)
            check(same_row(a, alone, 0, h, i),
                  "entry 0 alone: other bits in head " + std::to_string(h) + ", query " + std::to_string(i));
}

// Heads in reverse order.
template<typename V> V reversed_heads(V v, int dim) {
    if (!v.given() || dim < 0 || v.extent[dim] <= 1) return v;
    using Byte = std::conditional_t<std::is_same_v<V, ConstView>, const char, char>;
    v.data = static_cast<Byte *>(v.data) + (v.extent[dim] - 1) * v.stride[dim] * attune::size_of(v.dtype);
    v.stride[dim] = -v.stride[dim];
    return v;
}
template<typename T> void check_reversed_heads(attune::Context &context, SdpaArrays<T> &a, std::string_view variant) {
    if (a.the.alibi == Alibi::standard || a.the.dropout.probability > 0) return;  // functions of the head's number
    SdpaArrays<T> other(a.the);
    attune::SdpaOptions o = other.options(variant);
    o.bias = reversed_heads(o.bias, o.bias.rank - 3), o.mask = reversed_heads(o.mask, o.mask.rank - 3);
    o.alibi_slopes = reversed_heads(o.alibi_slopes, o.alibi_slopes.rank - 1), o.sinks = reversed_heads(o.sinks, 0);
    o.lse = reversed_heads(o.lse, 1);
    if (!a.the.average_weights) o.weights = reversed_heads(o.weights, 1);
    const attune::Status status = attune::scaled_dot_product_attention(
        context, reversed_heads(other.query.view(), 1), reversed_heads(other.key.view(), 1),
        reversed_heads(other.value.view(), 1), reversed_heads(other.out.view(), 1), o);
    check(status.ok(), "heads in reverse order were refused: " + status.message());
    if (a.the.average_weights) return check_none(defect(other));  // a sum over the heads in another order
    check_same_bits(a, other, "with the heads in reverse order");
}

// Structural masks as a boolean mask: the numbers of the same reference.
template<typename T> void check_as_mask(attune::Context &context, SdpaArrays<T> &a) {
    if (!a.the.mask.empty()) return;
    const SdpaCase &c = a.the;
    SdpaArrays<T> other(c);
    attune::SdpaOptions o = other.options({});
    Array<bool> mask({c.batch, 1, c.queries, c.keys});
    for (std::int64_t b = 0; b < c.batch; b++)
        for (std::int64_t i = 0; i < c.queries; i++)
            for (std::int64_t j = 0; j < c.keys; j++) mask(b, 0, i, j) = takes_part(o, b, i, j, c.queries, c.keys);
    o.mask = mask.view(), o.valid_lens = {}, o.window = {};
    if (c.alibi == Alibi::none) o.causal = attune::Causal::none, o.offset = {}, o.offsets = {};
    const attune::Status status = attune::scaled_dot_product_attention(context, other.query.view(), other.key.view(),
                                                                       other.value.view(), other.out.view(), o);
    check(status.ok(), "masks as a boolean mask were refused: " + status.message());
    // Scores that no structural mask hides are the same; only what kernels compute for hidden ones differs.
    INFO("structural masks as a boolean mask");
    check_none(defect(other));
}

// Keys in two parts, merged: the numbers of the same reference.
template<typename T> void check_split_keys(attune::Context &context, SdpaArrays<T> &a) {
    const SdpaCase &c = a.the;
    const bool plain = c.causal == attune::Causal::none && c.window.left < 0 && c.window.right < 0 && c.valid_lens.empty() &&
                       c.bias.empty() && c.mask.empty() && c.alibi == Alibi::none && !c.sinks && c.dropout.probability == 0 &&
                       !c.weights && c.keys > 1;
    if (!plain || is_half<T>) return;
    SdpaArrays<T> first(c), second(c), merged(c);
    const std::int64_t at = c.keys / 2 + c.seed % 2 * (c.keys / 3);
    const auto part = [&](attune::View v, bool is_second) {
        if (is_second) v.data = static_cast<T *>(v.data) + at * v.stride[2];
        v.extent[2] = is_second ? c.keys - at : at;
        return v;
    };
    for (SdpaArrays<T> *to : {&first, &second}) {
        const attune::Status status =
            attune::scaled_dot_product_attention(context, a.query.view(), part(a.key.view(), to == &second),
                                                 part(a.value.view(), to == &second), to->out.view(), to->options({}));
        check(status.ok(), "a part of the keys was refused: " + status.message());
    }
    const attune::Status status = attune::merge_attention(context, first.out.view(), first.lse.view(), second.out.view(),
                                                          second.lse.view(), merged.out.view(), merged.lse.view());
    check(status.ok(), "merge was refused: " + status.message());
    INFO("keys in two parts, merged");
    check_none(defect(merged));
}

template<typename T> void run_typed(Draw &draw) {
    const std::vector<std::string> scores = {"dot_product", "general", "cosine", "gaussian"};
    const auto score = static_cast<attune::Score>(is_half<T> ? 0 : draw.one_of("score", scores, 5));
    const bool other_op = score == attune::Score::cosine || score == attune::Score::gaussian;
    const DrawnVariant variant = draw_variant(draw, other_op ? scores[std::size_t(score)] : "sdpa", attune::dtype_of<T>(),
                                              {"plain", "scored", "training"});
    const bool any = !variant.forced();
    SdpaCase c = draw_attention(
        draw,
        {.scores = any || variant.kind != "plain", .dropout = any || variant.kind == "training", .head_dim = variant.head_dim});
    c.score = score;
    if (score == attune::Score::general && !variant.head_dim) c.key_dim = draw.number("key_dim", 1, 40);
    INFO(describe(c));
    const attune::ContextOptions options = draw_context(draw);
    const DrawnFence fence(draw);
    SdpaArrays<T> a(c);
    const Inputs inputs = inputs_of(a);
    attune::Context context(options);
    const attune::Status status = a.run(context, variant.name);
    inputs.check_unchanged();
    if (!ran(status, context, variant.forced(), [&] { return outputs_untouched(a); })) return;
    INFO("ran " << context.last_variant());
    check_none(defect(a));
    const std::size_t other =
        draw.one_of("again", {"no", "other_context", "same_context", "entry", "reversed_heads", "as_mask", "split_keys"}, 1);
    if (other == 1 || other == 2) {
        SdpaArrays<T> again(c);
        attune::Context apart(draw_context(draw, "other_"));
        check(again.run(other == 1 ? apart : context, variant.name).ok(), "refused the second time");
        check_same_bits(a, again, other == 1 ? "with another Context" : "the second time");
    }
    if (c.queries == 0 || c.keys == 0) return;
    if (other == 3) check_first_entry(context, a, variant.name);
    if (other == 4) check_reversed_heads(context, a, variant.name);
    if (other == 5) check_as_mask(context, a);
    if (other == 6) check_split_keys(context, a);
}

}  // namespace

void run_dense(Draw &draw) {
    with_any_type(draw, [&](auto zero) { run_typed<decltype(zero)>(draw); });
}

}  // namespace attune_fuzz
