// SPDX-License-Identifier: MIT
// Tasks of a checked call of the gradients, and the arguments of their kernels.
#include "attention/dropout_threshold.h"
#include "attention/sdpa_arguments.h"
#include "attention_backward/sdpa_backward_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "layers/linear_backward_call.h"
#include "user_attention/user_call.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

// Slices along the first dimension: (B, H, S, D) to (heads, S, D), (B, Hkv, S, D) to (S, D); rank 3 likewise.
template<typename Data> BasicView<Data> drop_first(BasicView<Data> v, std::int64_t index) {
    BasicView<Data> w = part_of(v, 0, index, 1);
    for (int n = 1; n < v.rank; n++) w.extent[n - 1] = w.extent[n], w.stride[n - 1] = w.stride[n];
    w.rank = v.rank - 1;
    return w;
}
template<typename Data> BasicView<Data> heads_of(const BasicView<Data> &v, const TileTask &t, std::int64_t group) {
    return part_of(drop_first(v, t.entry), 0, t.key_head * group + t.first_head, t.heads);
}
template<typename Data> BasicView<Data> key_head_of(const BasicView<Data> &v, const TileTask &t) {
    return drop_first(drop_first(v, t.entry), t.key_head);
}

// Scratch for the gradient of key or value where only another gradient is wanted; and for that of the weights of additive
// scores, for each tile of keys: (B, Hkv, tiles, h).
struct TileOutputs {
    View unwanted_key, unwanted_value, weight;
};

AttentionBackwardForm form_of(const SdpaCall &c, const VariantRecord &variant) {
    using Form = AttentionBackwardForm;
    Form form{Form::Kind::scored, Form::Pair::product, Form::User::none};
    if (variant.kind_id == Kind::plain) form.kind = Form::Kind::plain;
    if (variant.kind_id == Kind::training) form.kind = Form::Kind::training;
    if (c.op.id == OpId::gaussian_backward) form.pair = Form::Pair::gaussian;
    if (c.pair_weight.given()) form.pair = Form::Pair::additive;
    if (c.user) form.user = c.user->attention->has_mask ? Form::User::masked : Form::User::unmasked;
    return form;
}

template<typename Own>
Status run_tiles_of(Context::State &context, const BackwardShared &s, const VariantRecord &variant, const TileTask &t,
                    const Own &own) {
    const SdpaCall &c = s.call.forward;
    const SdpaProblem &p = c.sizes;
    const std::int64_t group = p.query_heads / p.key_heads;
    static constexpr double nothing = 0;
    auto table = [&](const ConstView &v, DType type) {
        return v.given() ? heads_of(v, t, group) : typed_view(&nothing, type, {t.heads, p.queries, p.keys}, {0, 0, 1});
    };
    const ConstView slopes = c.slopes.given()
                                 ? part_of(part_of(c.slopes, 0, t.entry, 1), 1, t.key_head * group + t.first_head, t.heads)
                                 : typed_view(&nothing, DType::f32, {1, t.heads}, {0, 0});
    const ConstView no_rows = typed_view(&nothing, s.rows.lse.dtype, {t.heads, 0}, {0, 1});
    HalideBuffer query(heads_of(c.query, t, group)), grad_out(heads_of(s.grad_out, t, group)), key(key_head_of(c.key, t)),
        value(key_head_of(c.value, t)), row_lse(t.checks_captures ? no_rows : ConstView(heads_of(s.rows.lse, t, group))),
        row_delta(heads_of(s.rows.delta, t, group)), lengths(drop_first(s.lengths, t.entry)),
        shortest(drop_first(s.bounds.shortest, t.entry)), longest(drop_first(s.bounds.longest, t.entry)),
        bias(table(s.bias, p.dtype)), slopes_buffer(slopes), mask(table(s.mask, DType::boolean));
    auto of_entry = [&](const std::vector<std::int32_t> &x) {
        return x[x.size() == 1 ? 0 : static_cast<std::size_t>(t.entry)];
    };
    auto count = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const double probability = p.dropout ? c.dropout.probability : 0;
    const std::int64_t first_head = t.key_head * group + t.first_head;
    HalideBuffer pair_weight(c.pair_weight.given() ? c.pair_weight : typed_view(&nothing, p.dtype, {0}, {1}));
    std::optional<HalideBuffer> blocks;
    if (s.blocks.given()) blocks.emplace(heads_of(s.blocks, t, group));
    std::optional<CaptureArguments> captures;
    if (c.user) captures.emplace(*c.user);

    const AttentionBackwardArguments arguments{.query = query.get(),
                                               .grad_out = grad_out.get(),
                                               .key = key.get(),
                                               .value = value.get(),
                                               .row_lse = row_lse.get(),
                                               .row_delta = row_delta.get(),
                                               .lengths = lengths.get(),
                                               .shortest = shortest.get(),
                                               .longest = longest.get(),
                                               .band_begin = of_entry(c.band_begin),
                                               .band_end = of_entry(c.band_end),
                                               .offset = of_entry(c.offset),
                                               .first_query_tile = count(t.first_query_tile),
                                               .query_tiles = count(t.query_tiles),
                                               .first_key_tile = count(t.first_key_tile),
                                               .key_tiles = count(t.key_tiles),
                                               .wants_query = t.query,
                                               .wants_key = t.key,
                                               .wants_bias = t.bias,
                                               .scale = c.scale,
                                               .softcap = c.softcap,
                                               .has_bias = s.bias.given(),
                                               .bias = bias.get(),
                                               .has_alibi = c.slopes.given(),
                                               .slopes = slopes_buffer.get(),
                                               .has_mask = s.mask.given(),
                                               .mask = mask.get(),
                                               .seed_low = static_cast<std::uint32_t>(c.dropout.seed),
                                               .seed_high = static_cast<std::uint32_t>(c.dropout.seed >> 32),
                                               .dropout_offset = c.dropout.offset,
                                               .first_head = static_cast<std::uint32_t>(t.entry * p.query_heads + first_head),
                                               .threshold = static_cast<std::uint32_t>(dropout_threshold(probability)),
                                               .keep_scale = 1 / (1 - probability),
                                               .pair_weight = pair_weight.get(),
                                               .pair_bias = c.pair_bias,
                                               .entry = count(t.entry),
                                               .key_head = count(t.key_head),
                                               .head = count(first_head),
                                               .heads = count(p.query_heads),
                                               .blocks = blocks ? blocks->get() : nullptr,
                                               .captures = captures ? captures->list() : CaptureList({})};
    const AttentionBackwardForm form = form_of(c, variant);
    ArgumentList list;
    arguments.append_to(list, form);
    own.append_to(list, form);
    return call_kernel(context, variant.kernel, list.data(), 1);
}

Status run_task(Context::State &context, const BackwardShared &s, const VariantRecord &variant, const TileOutputs &own,
                const TileTask &t) {
    const SdpaProblem &p = s.call.forward.sizes;
    const std::int64_t group = p.query_heads / p.key_heads;
    static constexpr double nothing = 0;
    // Some rows of an output; no rows of an output that the task does not compute.
    auto rows_of = [](View v, int n, std::int64_t tile, std::int64_t first, std::int64_t count, bool wanted) {
        if (!wanted) return part_of(v, n, 0, 0);
        return part_of(v, n, first * tile, std::min(count * tile, v.extent[n] - first * tile));
    };
    const ConstView query_like = typed_view(&nothing, p.dtype, {t.heads, 0, p.head_dim}, {0, 0, 1});
    const View grad_query = s.call.query.given() ? heads_of(s.call.query, t, group) : writable(query_like);
    const View grad_key = key_head_of(s.call.key.given() ? s.call.key : own.unwanted_key, t);
    const View grad_value = key_head_of(s.call.value.given() ? s.call.value : own.unwanted_value, t);
    HalideBuffer query(rows_of(grad_query, 1, variant.tile_q, t.first_query_tile, t.query_tiles, t.query)),
        key(rows_of(grad_key, 0, variant.kv_block, t.first_key_tile, t.key_tiles, t.key)),
        value(rows_of(grad_value, 0, variant.kv_block, t.first_key_tile, t.key_tiles, t.key));
    const View no_pairs = writable(typed_view(&nothing, p.dtype, {t.heads, 0, 0}, {0, 0, 1}));
    View pairs = t.bias ? heads_of(s.call.bias, t, group) : no_pairs;
    pairs = rows_of(rows_of(pairs, 1, variant.tile_q, t.first_query_tile, t.query_tiles, t.bias), 2, variant.kv_block,
                    t.first_key_tile, t.key_tiles, t.bias);
    HalideBuffer bias(pairs);
    HalideBuffer weight(own.weight.given() ? rows_of(key_head_of(own.weight, t), 0, 1, t.first_key_tile, t.key_tiles, t.key)
                                           : no_pairs);
    const AttentionGradientsArguments arguments{.grad_query = query.get(),
                                                .grad_key = key.get(),
                                                .grad_value = value.get(),
                                                .grad_bias = bias.get(),
                                                .grad_weight = weight.get()};
    return run_tiles_of(context, s, variant, t, arguments);
}

// Refuses captures of a user's attention that are smaller than some task reads, before the first task writes: a capture may be
// too small for the last heads alone. Kernels check their buffers before they compute, in the order of their names (Halide
// keeps them in a map), and captures, capture_..., come before row_lse, which is empty here: a kernel that refuses row_lse has
// accepted the captures.
Status check_captures_of_tasks(Context::State &context, const BackwardShared &s, const VariantRecord &variant,
                               const TileOutputs &own, std::span<const TileTask> tasks) {
    for (TileTask t : tasks) {
        t.checks_captures = true;
        Status refused = run_task(context, s, variant, own, t);
        if (refused.ok()) return {StatusCode::internal, "a kernel does not check the bounds of its buffers"};
        if (refused.message().find("buffer row_lse") == std::string_view::npos) return refused;
    }
    return {};
}

Status run_rows(Context::State &context, const BackwardCall &call, const ConstView &out, const ConstView &grad_out,
                const VariantRecord &variant, const BackwardRows &rows) {
    const SdpaProblem &p = call.forward.sizes;
    static constexpr double nothing = 0;
    const bool has_grad_lse = call.grad_lse.given();
    const ConstView none = typed_view(&nothing, sum_type(p.dtype), {p.batch, p.query_heads, p.queries}, {0, 0, 0});
    HalideBuffer attended(out), gradient(grad_out), lse(call.lse), grad_lse(has_grad_lse ? call.grad_lse : none),
        row_lse(rows.lse), row_delta(rows.delta);
    const BackwardRowsArguments arguments{.attended = attended.get(),
                                          .grad_out = gradient.get(),
                                          .lse = lse.get(),
                                          .grad_lse = grad_lse.get(),
                                          .has_grad_lse = has_grad_lse,
                                          .row_lse = row_lse.get(),
                                          .row_delta = row_delta.get()};
    return call_kernel(context, variant.kernel, arguments, worthwhile_threads(p, context.threads));
}

Status run_sinks(Context::State &context, const BackwardCall &call, const VariantRecord &variant, const BackwardRows &rows) {
    HalideBuffer sinks(call.forward.sinks), row_lse(rows.lse), row_delta(rows.delta), out(call.sinks);
    const SinkGradientArguments arguments{
        .sinks = sinks.get(), .row_lse = row_lse.get(), .row_delta = row_delta.get(), .grad_sinks = out.get()};
    return call_kernel(context, variant.kernel, arguments, 1);
}

void fill_without_pairs(const BackwardCall &call) {
    for (const View *v : {&call.query, &call.key, &call.value, &call.bias, &call.alibi_slopes})
        if (v->given()) fill_zeros(*v);
    if (call.pair_weight.given()) fill_zeros(as_rank4(call.pair_weight, false));
    for (const View &v : call.user_captures)
        if (v.given()) fill_zeros(as_rank4(v, false));
}

}  // namespace

Status run_tiles(Context::State &context, const BackwardShared &s, const VariantRecord &variant, const TileTask &t,
                 const TableGradientArguments &own) {
    return run_tiles_of(context, s, variant, t, own);
}
Status run_tiles(Context::State &context, const BackwardShared &s, const VariantRecord &variant, const TileTask &t,
                 const CaptureGradientArguments &own) {
    return run_tiles_of(context, s, variant, t, own);
}

Status run_backward(Context &caller, const BackwardCall &call, BackwardChoice &choice) {
    Context::State &context = state_of(caller);
    const SdpaCall &c = call.forward;
    const SdpaProblem &p = c.sizes;
    const std::int64_t rows = p.batch * p.query_heads * p.queries;
    const bool pairs = rows != 0 && p.keys != 0;
    if (!pairs) choice.tiles = {nullptr, "no pairs of a query and a key"};

    // One block: lse and delta of each query, bounds of the lengths, copies of tables, unwanted gradients, a row of zeros.
    std::int64_t bytes = 0;
    auto reserve = [&](std::int64_t size) {
        const std::int64_t at = bytes;
        bytes += (size + 63) / 64 * 64;
        return at;
    };
    const std::int64_t sum_size = size_of(sum_type(p.dtype)), keys = pairs ? p.batch * p.key_heads * p.keys : 0;
    const std::int64_t lse_at = reserve(rows * sum_size), delta_at = reserve(rows * sum_size);
    const std::int64_t bounds_at = reserve(pairs ? bytes_of_bounds(p) : 0);
    const std::int64_t capture_bounds_at = reserve(pairs && choice.captures.variant ? bytes_of_bounds(p) : 0);
    const std::int64_t bias_at = reserve(pairs ? bytes_of_expansion(c.bias, p.keys) : 0),
                       mask_at = reserve(pairs ? bytes_of_expansion(c.mask, p.keys) : 0);
    const bool key = call.key.given(), value = call.value.given();
    const std::int64_t key_at = reserve(!key ? keys * p.head_dim * size_of(p.dtype) : 0);
    const std::int64_t value_at = reserve(!value ? keys * p.value_dim * size_of(p.dtype) : 0);
    const bool additive = c.pair_weight.given();
    const std::int64_t key_tiles = choice.tiles.variant ? ceil_div(p.keys, choice.tiles.variant->kv_block) : 0;
    const std::int64_t weight_at = reserve(additive && pairs ? p.batch * p.key_heads * key_tiles * p.head_dim * sum_size : 0);
    const std::int64_t zeros_at = reserve(p.value_dim * size_of(p.dtype));
    ScratchBlock block(*context.scratch, static_cast<std::size_t>(bytes));
    if (!block.data()) return no_memory();
    char *memory = static_cast<char *>(block.data());
    auto typed = [&](std::int64_t at, DType type, std::initializer_list<std::int64_t> extents) {
        View v(reinterpret_cast<float *>(memory + at), extents);
        v.dtype = type;
        return v;
    };
    const BackwardRows row_terms{typed(lse_at, sum_type(p.dtype), {p.batch, p.query_heads, p.queries}),
                                 typed(delta_at, sum_type(p.dtype), {p.batch, p.query_heads, p.queries})};

    TileOutputs own;
    LinearBackwardCall sum_of_weights;
    if (pairs && additive) own.weight = typed(weight_at, sum_type(p.dtype), {p.batch, p.key_heads, key_tiles, p.head_dim});
    if (pairs && call.pair_weight.given()) {
        const LinearGradients wanted{.x = {}, .weight = {}, .bias = call.pair_weight};
        if (Status s = prepare_linear_backward(context, {}, {}, own.weight, wanted, {}, sum_of_weights); !s.ok()) return s;
    }

    // Where every weight is dropped, out is zeros and depends on nothing.
    const bool drops_all = c.dropout.probability > 0 && !p.dropout;
    ConstView out = c.out, grad_out = call.grad_out;
    if (drops_all) {
        std::memset(memory + zeros_at, 0, static_cast<std::size_t>(p.value_dim * size_of(p.dtype)));
        out = grad_out = typed_view(memory + zeros_at, p.dtype, {p.batch, p.query_heads, p.queries, p.value_dim}, {0, 0, 0, 1});
    }
    if (rows > 0)
        if (Status s = run_rows(context, call, out, grad_out, *choice.rows.variant, row_terms); !s.ok()) return s;
    // The sinks come last, since kernels of a user's attention may refuse captures that are too small.
    const auto finish = [&] {
        return call.sinks.given() ? run_sinks(context, call, *choice.sinks.variant, row_terms) : Status();
    };
    if (!pairs) {
        fill_without_pairs(call);
        return finish();
    }

    const std::int32_t every_key = static_cast<std::int32_t>(p.keys);
    const VariantRecord &variant = *choice.tiles.variant;
    BackwardShared shared{call, row_terms, grad_out, c.lengths, {}, {}, {}, {}};
    if (!shared.lengths.given()) shared.lengths = ConstView(&every_key, {p.batch, p.queries}, {0, 0});
    shared.bounds = bound_lengths(shared.lengths, p, variant.tile_q, reinterpret_cast<std::int32_t *>(memory + bounds_at));
    shared.bias = dense_along_keys(c.bias, p.keys, memory + bias_at);
    shared.mask = dense_along_keys(c.mask, p.keys, memory + mask_at);
    BlockTable blocks;
    if (c.user && c.user->attention->has_mask) {
        if (Status s = blocks.make(context, c, {1, variant.tile_q, variant.kv_block}); !s.ok()) return s;
        shared.blocks = blocks.view();
    }
    const int threads = worthwhile_threads(p, context.threads);
    if (choice.captures.variant) {
        BackwardShared of_captures = shared;
        of_captures.bounds = bound_lengths(shared.lengths, p, choice.captures.variant->tile_q,
                                           reinterpret_cast<std::int32_t *>(memory + capture_bounds_at));
        if (Status s = run_captures(context, of_captures, choice, threads); !s.ok()) return s;
    }
    if (!key) own.unwanted_key = typed(key_at, p.dtype, {p.batch, p.key_heads, p.keys, p.head_dim});
    if (!value) own.unwanted_value = typed(value_at, p.dtype, {p.batch, p.key_heads, p.keys, p.value_dim});
    const std::vector<TileTask> tasks = tasks_of(call, choice, threads);
    if (c.user)
        if (Status s = check_captures_of_tasks(context, shared, variant, own, tasks); !s.ok()) return s;
    if (Status s = run_user_captures(context, shared, choice, threads); !s.ok()) return s;
    if (!call.query.given() && !key && !value && !call.pair_weight.given() && !choice.bias_with_tiles) return finish();
    Status s = run_tasks(context, static_cast<std::int64_t>(tasks.size()), threads, [&](std::int64_t n, int) {
        return run_task(context, shared, variant, own, tasks[static_cast<std::size_t>(n)]);
    });
    if (!s.ok()) return s;
    if (call.pair_weight.given())
        if (Status sum = run_linear_backward(context, sum_of_weights, start_of_call()); !sum.ok()) return sum;
    return finish();
}

}  // namespace attune
