// SPDX-License-Identifier: MIT
// Caches, pages, rows before attention, and the merge of partial attentions.
#include "options.h"

namespace attune_python {
namespace {

using attune::ConstView;
using attune::Context;
using attune::View;

constexpr Word<attune::CacheWhenFull> when_full[] = {{"refuse", attune::CacheWhenFull::refuse},
                                                     {"slide", attune::CacheWhenFull::slide}};

const Keywords &append_keywords() {
    using attune::KvAppendOptions;
    static const Keywords *const table = new Keywords{
        {"when_full", "str", "'refuse'", "\"refuse\", or \"slide\": the newest C rows stand in [0, C).",
         [](Call &, void *into, nb::handle v, const char *name) {
             static_cast<attune::KvAppendOptions *>(into)->when_full = word_of(name, v, when_full);
         }},
        {"new_lens", "ArrayLike | Sequence[int] | None", "None", "i32 (B): only the first new_lens[b] rows are appended.",
         integers_<&KvAppendOptions::new_lens>},
        {"rotate_values", "bool", "False", "Hadamard rotation of values.", truth_<&KvAppendOptions::rotate_values>},
        {"positions", "ArrayLike | None", "None", "i32 (B, S), for RoPE; None: cache_lens[b], cache_lens[b] + 1, ...",
         input_<&KvAppendOptions::positions>},
    };
    return *table;
}

void kv_append(nb::handle key, nb::handle value, nb::handle cache_lens, nb::handle key_cache, nb::handle value_cache,
               const nb::kwargs &given_options) {
    Call call;
    attune::KvAppendOptions options;
    read_keywords(call, "kv_append", given_options, {{append_keywords(), &options}, {row_step_keywords(), &options.key_steps}});
    const ConstView k = call.input("key", key), v = call.input("value", value), lens = call.integers("cache_lens", cache_lens);
    const View of_k = call.output("key_cache", key_cache), of_v = call.output("value_cache", value_cache);
    call.run([&](Context &c) { return attune::kv_append(c, k, v, lens, of_k, of_v, options); });
}

const Keywords &paged_append_keywords() {
    using attune::AppendOptions;
    static const Keywords *const table = new Keywords{
        {"positions", "ArrayLike | Sequence[int] | None", "None", "i32 (T), of the new rows; needed with RoPE.",
         integers_<&AppendOptions::positions>},
        {"rotate_values", "bool", "False", "Hadamard rotation of values.", truth_<&AppendOptions::rotate_values>},
    };
    return *table;
}

void paged_append(nb::handle key, nb::handle value, nb::handle slots, nb::handle key_pages, nb::handle value_pages,
                  const nb::kwargs &given_options) {
    Call call;
    attune::AppendOptions options;
    read_keywords(call, "paged_append", given_options,
                  {{paged_append_keywords(), &options}, {row_step_keywords(), &options.key_steps}});
    const ConstView k = call.input("key", key), v = call.input("value", value), to = call.input("slots", slots);
    const attune::Pages of_k = pages_output(call, "key_pages", key_pages),
                        of_v = pages_output(call, "value_pages", value_pages);
    call.run([&](Context &c) { return attune::paged_append(c, k, v, to, of_k, of_v, options); });
}

nb::object transform_rows(nb::handle x, nb::handle positions, const nb::kwargs &given_options) {
    Call call;
    attune::RowSteps steps;
    Wanted wanted;
    read_keywords(call, "transform_rows", given_options, {{row_step_keywords(), &steps}, {out_keyword(), &wanted}});
    const ConstView in = call.input("x", x), at = given(positions) ? call.integers("positions", positions) : ConstView{};
    nb::object result;
    const View out = call.output_or_new("out", wanted.out, x, in.dtype, extents_of(in), result, call.layout);
    call.run([&](Context &c) { return attune::transform_rows(c, in, at, out, steps); });
    return result;
}

nb::object transform_rows_backward(nb::handle x, nb::handle positions, nb::handle grad_out, const nb::kwargs &given_options) {
    Call call;
    attune::RowSteps steps;
    Wanted wanted;
    read_keywords(call, "transform_rows_backward", given_options,
                  {{row_step_keywords(), &steps}, {gradients_keyword(), &wanted}});
    const ConstView in = call.input("x", x), at = given(positions) ? call.integers("positions", positions) : ConstView{};
    const ConstView grad = call.input("grad_out", grad_out);
    Gradients gradients(call, wanted.gradients, {"x"});
    View grad_x, grad_weight;
    gradients.add("x", x, in, grad_x);
    if (steps.norm_weight.given())
        gradients.add("norm_weight", x, lse_type(in.dtype), extents_of(steps.norm_weight), grad_weight);
    nb::dict result = gradients.finish();
    call.run([&](Context &c) { return attune::transform_rows_backward(c, in, at, grad, grad_x, grad_weight, steps); });
    return result;
}

struct TableOptions {
    double scaling = 1;
};
const Keywords &table_keywords() {
    static const Keywords *const table = new Keywords{
        {"scaling", "float", "1.0", "Positions are divided by it.", number_<&TableOptions::scaling>},
    };
    return *table;
}

nb::object rope_tables(nb::handle positions, nb::handle dim, nb::handle base, const nb::kwargs &given_options) {
    Call call;
    TableOptions options;
    read_keywords(call, "rope_tables", given_options, {{table_keywords(), &options}});
    const attune::Dims extents{integer_of("positions", positions), integer_of("dim", dim) / 2};
    const double of_base = number_of("base", base);
    nb::object cos, sin;
    const View of_cos = call.make(nb::none(), attune::DType::f32, extents, cos);
    const View of_sin = call.make(nb::none(), attune::DType::f32, extents, sin);
    call.run([&](Context &c) { return attune::rope_tables(c, of_base, options.scaling, of_cos, of_sin); });
    return nb::make_tuple(cos, sin);
}

nb::object merge_attention(nb::handle parts, const nb::kwargs &given_options) {
    Call call;
    Wanted wanted;
    static const Keywords *const outputs = new Keywords(attention_outputs().without({"weights"}));
    read_keywords(call, "merge_attention", given_options, {{*outputs, &wanted}});
    std::vector<attune::PartialAttention> all;
    nb::object first;
    std::vector<nb::object> alive;
    for (nb::handle part : nb::borrow<nb::object>(parts)) {
        if (!PySequence_Check(part.ptr()) || nb::len(part) < 2) refuse("parts", "each must be (out, lse)");
        alive.push_back(nb::borrow(part));
        const nb::object of_out = part[0], of_lse = part[1];
        if (!first.is_valid()) first = of_out;
        all.push_back({call.input("parts: out", of_out), call.input("parts: lse", of_lse)});
    }
    if (all.empty()) refuse("parts", "must hold one (out, lse) or more");
    nb::object out, lse;
    const ConstView &like = all[0].out;
    const View into = call.output_or_new("out", wanted.out, first, like.dtype, extents_of(like), out, call.layout);
    const View of_lse = wanted_output(call, "lse", wanted.lse, first, all[0].lse.dtype, extents_of(all[0].lse), lse);
    call.run([&](Context &c) { return attune::merge_attention(c, all.data(), all.size(), into, of_lse); });
    return attention_result(wanted, out, lse, {});
}

}  // namespace

void bind_serving(nb::module_ &m) {
    using namespace nb::literals;
    add(m,
        {"kv_append",
         "Copies the rows of key and value behind the cache_lens[b] rows that the caches hold, in place. cache_lens is not "
         "changed.",
         {{"key", "ArrayLike", "(B, Hkv, S, Dk), last stride 1."},
          {"value", "ArrayLike", "(B, Hkv, S, Dv)."},
          {"cache_lens", "ArrayLike | Sequence[int]", "i32 (B), from 0 to C."},
          {"key_cache", "ArrayLike", "(B, Hkv, C, Dk), written."},
          {"value_cache", "ArrayLike", "(B, Hkv, C, Dv), written."}},
         "None",
         "Nothing.",
         {&append_keywords(), &row_step_keywords(), &common_keywords()}},
        &kv_append, "key"_a.none(), "value"_a.none(), "cache_lens"_a.none(), "key_cache"_a.none(), "value_cache"_a.none(),
        "options"_a);
    add(m,
        {"paged_append",
         "Stores row t of key and value in page slots[t] / page, row slots[t] % page; -1 skips the row. In one pass: norm, "
         "RoPE, rotation, then the cast or quantisation that the pages ask for.",
         {{"key", "ArrayLike", "(T, Hkv, Dk), last stride 1."},
          {"value", "ArrayLike", "(T, Hkv, Dv)."},
          {"slots", "ArrayLike", "i64 (T)."},
          {"key_pages", "ArrayLike | tuple[ArrayLike, ...]",
           "(P, page, Hkv, Dk) of the type of key; or (rows, scale) with rows i8; or (rows, scale, minimum) with rows u8, two "
           "channels a byte, and both f16 (P, page, Hkv, G). Written, but for a scale of the caller's own: f32 (1) or (Hkv, "
           "Dk)."},
          {"value_pages", "ArrayLike | tuple[ArrayLike, ...]", "As key_pages, of Dv channels. Written."}},
         "None",
         "Nothing.",
         {&paged_append_keywords(), &row_step_keywords(), &common_keywords()}},
        &paged_append, "key"_a.none(), "value"_a.none(), "slots"_a.none(), "key_pages"_a.none(), "value_pages"_a.none(),
        "options"_a);
    add(m,
        {"transform_rows",
         "RMS norm, RoPE and Hadamard rotation of rows of queries or keys, in this order; each may be missing.",
         {{"x", "ArrayLike", "(T, H, D), or (B, H, S, D); last stride 1."},
          {"positions", "ArrayLike | Sequence[int] | None", "i32 (T), or (B, S); needed with RoPE, else None.", "None"}},
         "Array",
         "Shape of x, rounded once.",
         {&row_step_keywords(), &out_keyword(), &common_keywords()}},
        &transform_rows, "x"_a.none(), "positions"_a = nb::none(), "options"_a);
    add(m,
        {"transform_rows_backward",
         "Gradients of a loss by the inputs of transform_rows().",
         {{"x", "ArrayLike", "x of the forward pass."},
          {"positions", "ArrayLike | Sequence[int] | None", "positions of the forward pass."},
          {"grad_out", "ArrayLike", "Gradient of the loss by the result."}},
         "dict[str, Array]",
         "The gradients wanted by name: x, norm_weight (f32, of f64 f64).",
         {&row_step_keywords(), &gradients_keyword(), &common_keywords()}},
        &transform_rows_backward, "x"_a.none(), "positions"_a.none(), "grad_out"_a.none(), "options"_a);
    add(m,
        {"rope_tables",
         "Tables of cosines and sines of positions 0, 1, ..., computed in double precision and rounded once.",
         {{"positions", "int", "Number of positions."},
          {"dim", "int", "Channels that are rotated, even."},
          {"base", "float", "Base of the angles, such as 10000.0."}},
         "tuple[Array, Array]",
         "(cos, sin), both f32 (positions, dim / 2).",
         {&table_keywords(), &common_keywords()}},
        &rope_tables, "positions"_a.none(), "dim"_a.none(), "base"_a.none(), "options"_a);
    static const Keywords *const outputs = new Keywords(attention_outputs().without({"weights"}));
    add(m,
        {"merge_attention",
         "The result of one call over the keys of all parts, from the out and lse of each (the combine step of "
         "Flash-Decoding).",
         {{"parts", "Sequence[tuple[ArrayLike, ArrayLike]]", "(out, lse) of each part: (B, Hq, Sq, Dv) and (B, Hq, Sq)."}},
         "Array | Attention",
         "out; or Attention(out, lse, None) where lse is asked for.",
         {outputs, &common_keywords()}},
        &merge_attention, "parts"_a.none(), "options"_a);
}

}  // namespace attune_python
