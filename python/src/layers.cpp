// SPDX-License-Identifier: MIT
// Linear layers, products, the softmax with lengths, and the dropout mask.
#include "options.h"

namespace attune_python {
namespace {

using attune::ConstView;
using attune::Context;
using attune::View;

attune::Dims with_last(const ConstView &v, std::int64_t last) {
    std::vector<std::int64_t> extents(v.extent, v.extent + std::min(v.rank, attune::max_rank));
    extents.back() = last;
    return attune::Dims(extents);
}

struct LinearArguments {
    ConstView bias;
    std::int64_t columns = 0;
};
const Keywords &linear_keywords() {
    static const Keywords *const table = new Keywords{
        {"bias", "ArrayLike | None", "None", "(N); None: no bias.", input_<&LinearArguments::bias>},
        {"columns", "int", "0", "N of a packed weight, of which its extents say only the next multiple of 64; 0: all.",
         integer_<&LinearArguments::columns>},
    };
    return *table;
}

nb::object linear(nb::handle x, nb::handle weight, const nb::kwargs &given_options) {
    Call call;
    LinearArguments arguments;
    Variant variant;
    Wanted wanted;
    read_keywords(call, "linear", given_options,
                  {{linear_keywords(), &arguments}, {variant_keyword(), &variant}, {out_keyword(), &wanted}});
    const ConstView in = call.input("x", x), w = call.input("weight", weight);
    std::int64_t columns = w.rank == 3 ? w.extent[0] * 64 : w.extent[0];
    if (arguments.bias.rank == 1) columns = arguments.bias.extent[0];
    if (arguments.columns > 0) columns = arguments.columns;
    nb::object result;
    const View out = call.output_or_new("out", wanted.out, x, in.dtype, with_last(in, columns), result);
    call.run([&](Context &c) { return attune::linear(c, in, w, arguments.bias, out, {.variant = variant.variant}); });
    return result;
}

nb::object pack_linear_weight(nb::handle weight, const nb::kwargs &given_options) {
    Call call;
    Variant variant;
    Wanted wanted;
    read_keywords(call, "pack_linear_weight", given_options, {{variant_keyword(), &variant}, {out_keyword(), &wanted}});
    const ConstView w = call.input("weight", weight);
    nb::object result;
    const auto extents = attune::packed_weight_extents(w.dtype, w.extent[0], w.rank == 2 ? w.extent[1] : 0);
    const View packed = call.output_or_new("out", wanted.out, weight, w.dtype, extents, result);
    call.run([&](Context &c) { return attune::pack_linear_weight(c, w, packed, {.variant = variant.variant}); });
    return result;
}

nb::object batch_dot(nb::handle a, nb::handle x, const nb::kwargs &given_options) {
    Call call;
    Variant variant;
    Wanted wanted;
    read_keywords(call, "batch_dot", given_options, {{variant_keyword(), &variant}, {out_keyword(), &wanted}});
    const ConstView left = call.input("a", a), right = call.input("x", x);
    const std::int64_t columns = right.rank >= 1 && right.rank <= attune::max_rank ? right.extent[right.rank - 1] : 0;
    nb::object result;
    const View out = call.output_or_new("out", wanted.out, a, left.dtype, with_last(left, columns), result);
    call.run([&](Context &c) { return attune::batch_dot(c, left, right, out, {.variant = variant.variant}); });
    return result;
}

constexpr Word<attune::MaskFill> fills[] = {{"zero", attune::MaskFill::zero}, {"seed", attune::MaskFill::seed}};
const Keywords &softmax_keywords() {
    using attune::MaskedSoftmaxOptions;
    static const Keywords *const table = new Keywords{
        {"valid_lens", "ArrayLike | Sequence[int] | None", "None",
         "i32 (B) or (B, Sq), from 0 to Sk: only scores j < valid_lens take part.",
         integers_<&MaskedSoftmaxOptions::valid_lens>},
        {"fill", "str", "'zero'",
         "Masked scores: \"zero\", -inf, a row without keys is 0; \"seed\", -1e6, such a row is uniform.",
         [](Call &, void *into, nb::handle v, const char *name) {
             static_cast<attune::MaskedSoftmaxOptions *>(into)->fill = word_of(name, v, fills);
         }},
        {"variant", "str | None", "None", "Run this variant, or fail; None: dispatch chooses.",
         text_<&MaskedSoftmaxOptions::variant>},
    };
    return *table;
}

nb::object masked_softmax(nb::handle scores, const nb::kwargs &given_options) {
    Call call;
    attune::MaskedSoftmaxOptions options;
    Wanted wanted;
    read_keywords(call, "masked_softmax", given_options, {{softmax_keywords(), &options}, {out_keyword(), &wanted}});
    const ConstView x = call.input("scores", scores);
    nb::object result;
    const View out = call.output_or_new("out", wanted.out, scores, x.dtype, extents_of(x), result);
    call.run([&](Context &c) { return attune::masked_softmax(c, x, out, options); });
    return result;
}

nb::object masked_softmax_backward(nb::handle out, nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    attune::MaskedSoftmaxOptions options;
    Wanted wanted;
    read_keywords(call, "masked_softmax_backward", given_options, {{softmax_keywords(), &options}, {out_keyword(), &wanted}});
    const ConstView y = call.input("out", out), grad = call.input("grad_out", grad_out);
    nb::object result;
    const View into = call.output_or_new("grad_scores", wanted.out, out, y.dtype, extents_of(y), result);
    call.run([&](Context &c) { return attune::masked_softmax_backward(c, y, grad, into, options); });
    return result;
}

// Dropout's keywords of attention, so that a mask is asked for in the words of the call that draws it.
const Keywords &dropout_keywords() {
    static const Keywords *const table = new Keywords(attention_keywords().only(
        {"seed", "dropout_offset", "dropout_first_query", "dropout_first_key", "dropout_first_head", "dropout_heads"}));
    return *table;
}

nb::object dropout_mask(nb::handle shape, nb::handle probability, const nb::kwargs &given_options) {
    Call call;
    attune::SdpaOptions options;
    Wanted wanted;
    read_keywords(call, "dropout_mask", given_options, {{dropout_keywords(), &options}, {out_keyword(), &wanted}});
    options.dropout.probability = number_of("dropout_p", probability);
    std::vector<std::int64_t> extents;
    for (nb::handle extent : nb::borrow<nb::object>(shape)) extents.push_back(integer_of("shape", extent));
    nb::object result;
    const View mask = call.output_or_new("out", wanted.out, wanted.out, attune::DType::boolean, attune::Dims(extents), result);
    call.run([&](Context &c) { return attune::dropout_mask(c, options.dropout, mask); });
    return result;
}

}  // namespace

void bind_layers(nb::module_ &m) {
    using namespace nb::literals;
    add(m,
        {"linear",
         "x weight^T + bias: a linear (dense) layer.",
         {{"x", "ArrayLike", "(..., K), rank 1 to 4, last stride 1; f32, f64, bf16 or f16."},
          {"weight", "ArrayLike", "(N, K), or a weight packed by pack_linear_weight()."}},
         "Array",
         "(..., N).",
         {&linear_keywords(), &variant_keyword(), &out_keyword(), &common_keywords()}},
        &linear, "x"_a.none(), "weight"_a.none(), "options"_a);
    add(m,
        {"pack_linear_weight",
         "A weight in the order in which linear() reads it, for layers that are called often; the same bits as unpacked.",
         {{"weight", "ArrayLike", "(N, K), last stride 1."}},
         "Array",
         "(ceil(N / 64), K, 64), in bf16 (ceil(N / 64), ceil(K / 2), 128).",
         {&variant_keyword(), &out_keyword(), &common_keywords()}},
        &pack_linear_weight, "weight"_a.none(), "options"_a);
    add(m,
        {"batch_dot",
         "a x: a matrix product for each entry of a batch.",
         {{"a", "ArrayLike", "(B, n, m), or of rank 2 or 4; last stride 1."}, {"x", "ArrayLike", "(B, m, p)."}},
         "Array",
         "(B, n, p).",
         {&variant_keyword(), &out_keyword(), &common_keywords()}},
        &batch_dot, "a"_a.none(), "x"_a.none(), "options"_a);
    add(m,
        {"masked_softmax",
         "Softmax over the last dimension, masked by valid lengths.",
         {{"scores", "ArrayLike", "(B, Sk), (B, Sq, Sk) or (B, H, Sq, Sk); f32 or f64, last stride 1."}},
         "Array",
         "Shape of scores; 0 where masked.",
         {&softmax_keywords(), &out_keyword(), &common_keywords()}},
        &masked_softmax, "scores"_a.none(), "options"_a);
    add(m,
        {"masked_softmax_backward",
         "Gradient of a loss by the scores of masked_softmax().",
         {{"result", "ArrayLike", "Result of masked_softmax()."}, {"grad_out", "ArrayLike", "Gradient by it."}},
         "Array",
         "Shape of result.",
         {&softmax_keywords(), &out_keyword(), &common_keywords()}},
        &masked_softmax_backward, "result"_a.none(), "grad_out"_a.none(), "options"_a);
    add(m,
        {"dropout_mask",
         "Which weights dropout keeps: Philox4x32-10 of seed and indices alone.",
         {{"shape", "Sequence[int]", "(B, Hq, Sq, Sk), or (B, Sq, Sk) for one head."},
          {"dropout_p", "float", "Probability with which a weight becomes 0."}},
         "Array",
         "bool, of the shape; True where the weight is kept.",
         {&dropout_keywords(), &out_keyword(), &common_keywords()}},
        &dropout_mask, "shape"_a.none(), "dropout_p"_a.none(), "options"_a);
}

}  // namespace attune_python
