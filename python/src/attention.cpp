// SPDX-License-Identifier: MIT
// Attention, forward: by scores, additive, the multi-head layer, packed batches and pages.
#include "options.h"

namespace attune_python {
namespace {

using attune::ConstView;
using attune::Context;
using attune::SdpaOptions;
using attune::View;

const Positional qkv[] = {
    {"query", "ArrayLike", "(B, Hq, Sq, Dk), or (B, S, D) for one head, or (S, D); f32, f64, bf16 or f16, last stride 1."},
    {"key", "ArrayLike", "(B, Hkv, Sk, Dk); Hq is a multiple of Hkv (grouped-query attention)."},
    {"value", "ArrayLike", "(B, Hkv, Sk, Dv)."},
};
constexpr const char *attention_type = "Array | Attention";
constexpr const char *attention_returns =
    "out, (B, Hq, Sq, Dv), 0 for a query without keys; or Attention(out, lse, weights) where lse or weights is asked for.";

nb::object sdpa(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs &given_options) {
    Call call;
    SdpaOptions options;
    Wanted wanted;
    read_keywords(call, "scaled_dot_product_attention", given_options,
                  {{attention_keywords(), &options}, {attention_outputs(), &wanted}, {weights_keywords(), &options}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    Outputs made;
    const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, v), made.out, call.layout);
    made.add(call, wanted, query, q, k, options);
    call.run([&](Context &c) { return attune::scaled_dot_product_attention(c, q, k, v, out, options); });
    return made.result(wanted);
}

nb::object additive(nb::handle query, nb::handle key, nb::handle value, const nb::kwargs &given_options) {
    Call call;
    attune::AdditiveOptions options;
    Wanted wanted;
    read_keywords(call, "additive_attention", given_options,
                  {{additive_keywords(), &options},
                   {attention_keywords(), &options.attention},
                   {attention_outputs(), &wanted},
                   {weights_keywords(), &options.attention}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    Outputs made;
    const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, v), made.out, call.layout);
    made.add(call, wanted, query, q, k, options.attention);
    call.run([&](Context &c) { return attune::additive_attention(c, q, k, v, out, options); });
    return made.result(wanted);
}

nb::object varlen(nb::handle query, nb::handle key, nb::handle value, nb::handle cu_seqlens_q, nb::handle cu_seqlens_k,
                  const nb::kwargs &given_options) {
    Call call;
    SdpaOptions options;
    Wanted wanted;
    read_keywords(call, "variable_length_attention", given_options,
                  {{attention_keywords(), &options}, {attention_outputs(), &wanted}, {weights_keywords(), &options}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    const ConstView of_q = call.integers("cu_seqlens_q", cu_seqlens_q), of_k = call.integers("cu_seqlens_k", cu_seqlens_k);
    Outputs made;
    const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, v), made.out);
    if (q.rank == 3)
        options.lse = wanted_output(call, "lse", wanted.lse, query, lse_type(q.dtype), {q.extent[1], q.extent[0]}, made.lse);
    if (given(wanted.weights) && wanted.weights.ptr() != Py_False)
        options.weights = wanted_output(call, "weights", wanted.weights, query, q.dtype, {1}, made.weights);  // refused
    call.run([&](Context &c) { return attune::variable_length_attention(c, q, k, v, of_q, of_k, out, options); });
    return made.result(wanted);
}

const Keywords &head_keywords() {
    using attune::MultiHeadOptions;
    static const Keywords *const table = new Keywords{
        {"heads", "int", "1", "Heads of the query; must divide the rows of w_query.", integer_<&MultiHeadOptions::heads>},
        {"key_heads", "int", "0", "Heads of key and value; 0: as many as heads.", integer_<&MultiHeadOptions::key_heads>},
    };
    return *table;
}

const Keywords &head_bias_keywords() {
    using attune::MultiHeadWeights;
    static const Keywords *const table = new Keywords{
        {"b_query", "ArrayLike | None", "None", "Bias of the query's projection.", input_<&MultiHeadWeights::query_bias>},
        {"b_key", "ArrayLike | None", "None", "Bias of the key's projection.", input_<&MultiHeadWeights::key_bias>},
        {"b_value", "ArrayLike | None", "None", "Bias of the value's projection.", input_<&MultiHeadWeights::value_bias>},
        {"b_out", "ArrayLike | None", "None", "Bias of the output projection.", input_<&MultiHeadWeights::out_bias>},
    };
    return *table;
}

struct Layer {
    attune::MultiHeadWeights weights;
    attune::MultiHeadOptions options;
};

nb::object multi_head(nb::handle query, nb::handle key, nb::handle value, nb::handle w_query, nb::handle w_key,
                      nb::handle w_value, nb::handle w_out, const nb::kwargs &given_options) {
    Call call;
    Layer layer;
    Wanted wanted;
    read_keywords(call, "multi_head_attention", given_options,
                  {{head_keywords(), &layer.options},
                   {head_bias_keywords(), &layer.weights},
                   {attention_keywords(), &layer.options.attention},
                   {attention_outputs(), &wanted},
                   {weights_keywords(), &layer.options.attention}});
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    layer.weights.query = call.input("w_query", w_query), layer.weights.key = call.input("w_key", w_key);
    layer.weights.value = call.input("w_value", w_value), layer.weights.out = call.input("w_out", w_out);
    Outputs made;
    const std::int64_t batch = q.rank == 3 ? q.extent[0] : 0, rows = q.rank == 3 ? q.extent[1] : 0,
                       heads = std::max<std::int64_t>(layer.options.heads, 0);
    const View out =
        call.output_or_new("out", wanted.out, query, q.dtype, {batch, rows, layer.weights.out.extent[0]}, made.out);
    SdpaOptions &options = layer.options.attention;
    options.lse = wanted_output(call, "lse", wanted.lse, query, lse_type(q.dtype), {batch, heads, rows}, made.lse);
    const std::int64_t keys = k.rank == 3 ? k.extent[1] : 0;
    options.weights = wanted_output(
        call, "weights", wanted.weights, query, q.dtype,
        options.average_weights ? attune::Dims{batch, rows, keys} : attune::Dims{batch, heads, rows, keys}, made.weights);
    call.run([&](Context &c) { return attune::multi_head_attention(c, q, k, v, layer.weights, out, layer.options); });
    return made.result(wanted);
}

attune::PagedOptions &paged(void *into) { return *static_cast<attune::PagedOptions *>(into); }

nb::object paged_attention(nb::handle query, nb::handle key_pages, nb::handle value_pages, nb::handle cu_seqlens_q,
                           nb::handle block_table, nb::handle lens, const nb::kwargs &given_options) {
    Call call;
    attune::PagedOptions options;
    Wanted wanted;
    static const Keywords *const outputs = new Keywords(attention_outputs().without({"weights"}));
    read_keywords(call, "paged_attention", given_options, {{paged_keywords(), &options}, {*outputs, &wanted}});
    const ConstView q = call.input("query", query);
    const attune::ConstPages k = pages_input(call, "key_pages", key_pages), v = pages_input(call, "value_pages", value_pages);
    const ConstView of_q = call.integers("cu_seqlens_q", cu_seqlens_q), table = call.integers("block_table", block_table),
                    held = call.integers("lens", lens);
    Outputs made;
    const View out = call.output_or_new("out", wanted.out, query, q.dtype, out_extents(q, unpacked_rows(v)), made.out);
    if (q.rank == 3)
        options.lse = wanted_output(call, "lse", wanted.lse, query, lse_type(q.dtype), {q.extent[1], q.extent[0]}, made.lse);
    call.run([&](Context &c) { return attune::paged_attention(c, q, k, v, of_q, table, held, out, options); });
    return made.result(wanted);
}

}  // namespace

const Keywords &paged_keywords() {
    using attune::PagedOptions;
    using attune::SharedPrefix;
    static const Keywords *const table = new Keywords{
        {"scale", "float | None", "None", "Factor of the score; None: 1 / sqrt(Dk).", number_<&PagedOptions::scale>},
        {"softcap", "float", "0.0", "c > 0: a score x becomes c tanh(x / c). 0: off.", number_<&PagedOptions::softcap>},
        {"distance_bias", "ArrayLike | None", "None",
         "Type of query, (Hq, R): entry r is added to scores of keys r rows before the query, the last one to all further.",
         input_<&PagedOptions::distance_bias>},
        {"alibi", "bool", "False", "ALiBi with the standard slopes.", truth_<&PagedOptions::alibi>},
        {"alibi_slopes", "ArrayLike | None", "None", "Slopes of ALiBi: f32 (Hq) or (B, Hq).",
         input_<&PagedOptions::alibi_slopes>},
        {"causal", "bool", "True", "Each query sees the rows up to its own.", truth_<&PagedOptions::causal>},
        {"window", "tuple[int, int] | None", "None", "(left, right), from the position of the query; -1: unbounded.",
         [](Call &c, void *into, nb::handle v, const char *name) { read_window(c, paged(into).window, v, name); }},
        {"tree_mask", "ArrayLike | None", "None", "bool (B, S, S): query i sees new row j only where it is True.",
         input_<&PagedOptions::tree_mask>},
        {"positions", "ArrayLike | None", "None", "i32 (B, S): positions of the new rows, for window beside tree_mask.",
         input_<&PagedOptions::positions>},
        {"sinks", "ArrayLike | None", "None", "f32 (Hq): a score of each head that joins the normaliser.",
         input_<&PagedOptions::sinks>},
        {"prefix_block_table", "ArrayLike | None", "None", "i32 (G, N): pages of rows that several sequences begin with.",
         [](Call &c, void *into, nb::handle v, const char *name) { paged(into).prefix.block_table = c.input(name, v); }},
        {"prefix_lens", "ArrayLike | Sequence[int] | None", "None", "i32 (G): rows of each prefix, a multiple of 16.",
         [](Call &c, void *into, nb::handle v, const char *name) { paged(into).prefix.lens = c.integers(name, v); }},
        {"prefix_of", "ArrayLike | Sequence[int] | None", "None", "i32 (B): the prefix of each sequence, -1: none.",
         [](Call &c, void *into, nb::handle v, const char *name) { paged(into).prefix.of = c.integers(name, v); }},
        {"indptr", "ArrayLike | Sequence[int] | None", "None",
         "i32 (B + 1), where block_table is one list (N): pages [indptr[b], indptr[b + 1]) of sequence b.",
         integers_<&PagedOptions::indptr>},
        {"weight_sums", "ArrayLike | None", "None",
         "Output, an array that is written, f64 for f64, else f32: (B, Hq, Sk) or (B, Hkv, Sk), the sum of the weights of each "
         "key over the queries of a sequence, and over the query heads of a group; 0 behind its rows.",
         [](Call &c, void *into, nb::handle v, const char *name) { paged(into).weight_sums = c.output(name, v); }},
        {"invariant", "bool", "False", "The same bits for a prompt at once, in chunks and row by row.",
         truth_<&PagedOptions::invariant>},
        {"variant", "str | None", "None", "Run this variant, or fail; None: dispatch chooses.", text_<&PagedOptions::variant>},
    };
    return *table;
}

// Also of the gradients.
const Keywords &layer_head_keywords() { return head_keywords(); }
const Keywords &layer_bias_keywords() { return head_bias_keywords(); }

void bind_attention(nb::module_ &m) {
    using namespace nb::literals;
    const std::vector<Positional> inputs(std::begin(qkv), std::end(qkv));
    add(m,
        {"scaled_dot_product_attention",
         "softmax(score(query, key)) value over the keys that every given mask lets take part.",
         inputs,
         attention_type,
         attention_returns,
         {&attention_keywords(), &attention_outputs(), &weights_keywords(), &common_keywords()},
         "Options act in this order: score, softcap, bias, ALiBi, masks, sinks, softmax, dropout, times value. What masked "
         "keys and values hold has no effect; NaN in others propagates. The result has the same bits for any number of "
         "threads and any neighbours in the batch."},
        &sdpa, "query"_a.none(), "key"_a.none(), "value"_a.none(), "options"_a);
    add(m,
        {"additive_attention",
         "Attention with the score scale (w_score . tanh(W_q q + b_q + W_k k + b_k) + b_score) (Bahdanau et al., 2015).",
         {{"query", "ArrayLike", "(B, Hq, Sq, Dq), or of rank 3 or 2; f32 or f64, last stride 1."},
          {"key", "ArrayLike", "(B, Hkv, Sk, Dk)."},
          {"value", "ArrayLike", "(B, Hkv, Sk, Dv)."}},
         attention_type,
         attention_returns,
         {&additive_keywords(), &attention_keywords(), &attention_outputs(), &weights_keywords(), &common_keywords()},
         "Nothing of size (B, Sq, Sk, h) is stored. scale multiplies the sum, default 1; score and score_weight are refused."},
        &additive, "query"_a.none(), "key"_a.none(), "value"_a.none(), "options"_a);
    add(m,
        {"variable_length_attention",
         "Attention of each sequence of a packed batch: sequences one after another, without padding.",
         {{"query", "ArrayLike", "(Tq, Hq, Dk): the rows of all sequences."},
          {"key", "ArrayLike", "(Tk, Hkv, Dk)."},
          {"value", "ArrayLike", "(Tk, Hkv, Dv)."},
          {"cu_seqlens_q", "ArrayLike | Sequence[int]", "i32 (B + 1): sequence s has the queries [cu[s], cu[s + 1])."},
          {"cu_seqlens_k", "ArrayLike | Sequence[int]", "i32 (B + 1): and these keys."}},
         attention_type,
         "out, (Tq, Hq, Dv); or Attention(out, lse, None) with lse (Hq, Tq). Rows beyond the last sequence are not written.",
         {&attention_keywords(), &attention_outputs(), &weights_keywords(), &common_keywords()},
         "Options count within a sequence. Refused: bias, mask, weights, valid_lens, cache_lens, the score \"general\"."},
        &varlen, "query"_a.none(), "key"_a.none(), "value"_a.none(), "cu_seqlens_q"_a.none(), "cu_seqlens_k"_a.none(),
        "options"_a);
    add(m,
        {"multi_head_attention",
         "The multi-head attention layer (Vaswani et al., 2017): projections, attention of each head, output projection.",
         {{"query", "ArrayLike", "(B, Sq, Eq), last stride 1."},
          {"key", "ArrayLike", "(B, Sk, Ek)."},
          {"value", "ArrayLike", "(B, Sk, Ev)."},
          {"w_query", "ArrayLike", "(heads D, Eq), as linear layers have it: (out, in)."},
          {"w_key", "ArrayLike", "(key_heads D, Ek)."},
          {"w_value", "ArrayLike", "(key_heads Dv, Ev)."},
          {"w_out", "ArrayLike", "(Eo, heads Dv)."}},
         attention_type,
         "out, (B, Sq, Eo); or Attention(out, lse, weights).",
         {&head_keywords(), &head_bias_keywords(), &attention_keywords(), &attention_outputs(), &weights_keywords(),
          &common_keywords()}},
        &multi_head, "query"_a.none(), "key"_a.none(), "value"_a.none(), "w_query"_a.none(), "w_key"_a.none(),
        "w_value"_a.none(), "w_out"_a.none(), "options"_a);
    static const Keywords *const outputs = new Keywords(attention_outputs().without({"weights"}));
    add(m,
        {"paged_attention",
         "Attention over caches in pages of a pool (PagedAttention, Kwon et al., 2023): prompts, chunks, steps and trees of "
         "guesses in one call.",
         {{"query", "ArrayLike", "(Tq, Hq, Dk): queries [cu[b], cu[b + 1]) are those of sequence b."},
          {"key_pages", "ArrayLike | tuple[ArrayLike, ...]",
           "(P, page, Hkv, Dk), page a multiple of 16, or 1, type of query; or quantised as paged_append() takes them: (rows, "
           "scale) "
           "with rows i8, or (rows, scale, minimum) with rows u8, two channels a byte. Not of f64."},
          {"value_pages", "ArrayLike | tuple[ArrayLike, ...]", "(P, page, Hkv, Dv), or quantised, as keys are or otherwise."},
          {"cu_seqlens_q", "ArrayLike | Sequence[int]", "i32 (B + 1), from 0, never falling."},
          {"block_table", "ArrayLike | Sequence[int]",
           "i32 (B, N): row j of sequence b lies in page block_table[b, j / page]."},
          {"lens", "ArrayLike | Sequence[int]", "i32 (B): rows that each sequence holds, those of its queries among them."}},
         attention_type,
         "out, (Tq, Hq, Dv); or Attention(out, lse, None) with lse (Hq, Tq).",
         {&paged_keywords(), outputs, &common_keywords()}},
        &paged_attention, "query"_a.none(), "key_pages"_a.none(), "value_pages"_a.none(), "cu_seqlens_q"_a.none(),
        "block_table"_a.none(), "lens"_a.none(), "options"_a);
}

}  // namespace attune_python
