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
template<typename Data> BasicView<Data> heads_of(const BasicView<Data> &v, const TileTask &t, std::int64_t group) {
    return part_of(entry_of(v, t.entry), 0, t.key_head * group + t.first_head, t.heads);
}
template<typename Data> BasicView<Data> key_head_of(const BasicView<Data> &v, const TileTask &t) {
    return entry_of(entry_of(v, t.entry), t.key_head);
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
        row_delta(heads_of(s.rows.delta, t, group)), lengths(entry_of(s.lengths, t.entry)),
        shortest(entry_of(s.bounds.shortest, t.entry)), longest(entry_of(s.bounds.longest, t.entry)),
        bias(table(s.bias, p.dtype)), slopes_buffer(slopes), mask(table(s.mask, DType::boolean));
    auto of_entry = [&](const std::vector<std::int32_t> &x) {
        return x[x.size() == 1 ? 0 : static_cast<std::size_t>(t.entry)];
    };
    auto count = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
    const double probability = p.dropout ? c.dropout.probability : 0;
    const std::int64_t first_head = t.key_head * group + t.first_head;
    const std::uint32_t heads = counted_heads(c.dropout, p.query_heads);
    HalideBuffer pair_weight(c.pair_weight.given() ? c.pair_weight : typed_view(&nothing, p.dtype, {0}, {1}));
    std::optional<HalideBuffer> blocks;
    if (s.blocks.given()) blocks.emplace(heads_of(s.blocks, t, group));
    std::optional<CaptureArguments> captures;
    if (c.user) captures.emplace(*c.user, p);

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
                                               .first_query = c.dropout.first_query,
                                               .first_key = c.dropout.first_key,
                                               .first_head = c.first_head + static_cast<std::uint32_t>(t.entry) * heads +
                                                             static_cast<std::uint32_t>(first_head),
                                               .counted_heads = heads,
                                               .threshold = static_cast<std::uint32_t>(dropout_threshold(probability)),
                                               .keep_scale = 1 / (1 - probability),
                                               .pair_weight = pair_weight.get(),
                                               .pair_bias = c.pair_bias,
                                               .entry = count(t.entry),
                                               .key_head = count(t.key_head),
                                               .head = count(first_head),
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
                const VariantRecord &variant, const BackwardRows &rows, int threads) {
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
    return call_kernel(context, variant.kernel, arguments, worthwhile_threads(p, threads));
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

namespace {

bool has_pairs(const SdpaProblem &p) { return p.batch * p.query_heads * p.queries != 0 && p.keys != 0; }

// Tiles of keys; 0 where there are no pairs.
std::int64_t key_tiles_of(const BackwardCall &call, const BackwardChoice &choice) {
    return choice.tiles.variant ? ceil_div(call.forward.sizes.keys, choice.tiles.variant->kv_block) : 0;
}

// One block of scratch: offsets of its parts, in bytes.
class BackwardLayout {
public:
    BackwardLayout(const BackwardCall &call, const BackwardChoice &choice) {
        const SdpaCall &c = call.forward;
        const SdpaProblem &p = c.sizes;
        const bool pairs = has_pairs(p);
        const std::int64_t size = size_of(p.dtype), sum_size = size_of(sum_type(p.dtype)),
                           rows = p.batch * p.query_heads * p.queries, keys = pairs ? p.batch * p.key_heads * p.keys : 0;
        lse = reserve(rows * sum_size), delta = reserve(rows * sum_size);
        bounds = reserve(pairs ? bytes_of_bounds(p) : 0);
        capture_bounds = reserve(pairs && choice.captures.variant ? bytes_of_bounds(p) : 0);
        bias = reserve(pairs ? bytes_of_expansion(c.bias, p.keys) : 0);
        mask = reserve(pairs ? bytes_of_expansion(c.mask, p.keys) : 0);
        unwanted_key = reserve(!call.key.given() ? keys * p.head_dim * size : 0);
        unwanted_value = reserve(!call.value.given() ? keys * p.value_dim * size : 0);
        const std::int64_t tiles = p.batch * p.key_heads * key_tiles_of(call, choice);
        weight = reserve(pairs && c.pair_weight.given() ? tiles * p.head_dim * sum_size : 0);
        zeros = reserve(p.value_dim * size);
    }

    std::int64_t lse, delta;                    // of each query
    std::int64_t bounds, capture_bounds;        // of the lengths, for the tiles of each kernel
    std::int64_t bias, mask;                    // copies of tables
    std::int64_t unwanted_key, unwanted_value;  // gradients
    std::int64_t weight;                        // gradient of the weights of additive scores: TileOutputs
    std::int64_t zeros;                         // a row
    std::int64_t bytes = 0;                     // of all parts

private:
    std::int64_t reserve(std::int64_t size) {
        const std::int64_t at = bytes;
        bytes += (size + 63) / 64 * 64;
        return at;
    }
};

// One call of the gradients: its scratch, and its kernels in their order.
class BackwardRun {
public:
    BackwardRun(Context::State &context, const BackwardCall &call, const BackwardChoice &choice, int threads)
        : context_(context), call_(call), c_(call.forward), p_(call.forward.sizes), choice_(choice), threads_(threads),
          layout_(call, choice), memory_(*context.scratch, static_cast<std::size_t>(layout_.bytes)),
          every_key_(static_cast<std::int32_t>(p_.keys)) {}

    Status run() {
        if (!memory_.data()) return no_memory();
        if (Status s = prepare_weight(); !s.ok()) return s;
        if (Status s = find_row_terms(); !s.ok()) return s;
        if (!has_pairs(p_))
            fill_without_pairs(call_);
        else if (Status s = run_pairs(); !s.ok())
            return s;
        // The sinks come last, since kernels of a user's attention may refuse captures that are too small.
        return call_.sinks.given() ? run_sinks(context_, call_, *choice_.sinks.variant, rows_) : Status();
    }

private:
    Status prepare_weight();
    Status find_row_terms();
    Status run_pairs();
    Status run_tables(const BackwardShared &, int threads);
    Status run_tile_tasks(const BackwardShared &, int threads);

    char *at(std::int64_t offset) const { return static_cast<char *>(memory_.data()) + offset; }
    View typed(std::int64_t offset, DType type, std::initializer_list<std::int64_t> extents) const {
        View v(reinterpret_cast<float *>(at(offset)), extents);
        v.dtype = type;
        return v;
    }
    LengthBounds bounds_for(const VariantRecord &variant, const ConstView &lengths, std::int64_t offset) const {
        return bound_lengths(lengths, p_, variant.tile_q, reinterpret_cast<std::int32_t *>(at(offset)));
    }

    Context::State &context_;
    const BackwardCall &call_;
    const SdpaCall &c_;
    const SdpaProblem &p_;
    const BackwardChoice &choice_;
    const int threads_;  // at most
    const BackwardLayout layout_;
    const ScratchBlock memory_;
    const std::int32_t every_key_;  // a length
    BackwardRows rows_;
    ConstView grad_out_;
    TileOutputs own_;
    LinearBackwardCall sum_of_weights_;
};

// The gradient of the weights of additive scores: each tile of keys has its own, which are added after all tiles.
Status BackwardRun::prepare_weight() {
    if (!has_pairs(p_)) return {};
    if (c_.pair_weight.given())
        own_.weight =
            typed(layout_.weight, sum_type(p_.dtype), {p_.batch, p_.key_heads, key_tiles_of(call_, choice_), p_.head_dim});
    if (!call_.pair_weight.given()) return {};
    const LinearGradients wanted{.x = {}, .weight = {}, .bias = call_.pair_weight};
    return prepare_linear_backward(context_, {}, {}, own_.weight, wanted, {}, sum_of_weights_);
}

Status BackwardRun::find_row_terms() {
    rows_ = {typed(layout_.lse, sum_type(p_.dtype), {p_.batch, p_.query_heads, p_.queries}),
             typed(layout_.delta, sum_type(p_.dtype), {p_.batch, p_.query_heads, p_.queries})};
    ConstView out = c_.out;
    grad_out_ = call_.grad_out;
    // Where every weight is dropped, out is zeros and depends on nothing.
    const bool drops_all = c_.dropout.probability > 0 && !p_.dropout;
    if (drops_all) {
        std::memset(at(layout_.zeros), 0, static_cast<std::size_t>(p_.value_dim * size_of(p_.dtype)));
        out = grad_out_ =
            typed_view(at(layout_.zeros), p_.dtype, {p_.batch, p_.query_heads, p_.queries, p_.value_dim}, {0, 0, 0, 1});
    }
    if (p_.batch * p_.query_heads * p_.queries == 0) return {};
    return run_rows(context_, call_, out, grad_out_, *choice_.rows.variant, rows_, threads_);
}

Status BackwardRun::run_pairs() {
    const VariantRecord &variant = *choice_.tiles.variant;
    BackwardShared shared{call_, rows_, grad_out_, c_.lengths, {}, {}, {}, {}};
    if (!shared.lengths.given()) shared.lengths = ConstView(&every_key_, {p_.batch, p_.queries}, {0, 0});
    shared.bounds = bounds_for(variant, shared.lengths, layout_.bounds);
    shared.bias = dense_along_keys(c_.bias, p_.keys, at(layout_.bias));
    shared.mask = dense_along_keys(c_.mask, p_.keys, at(layout_.mask));
    BlockTable blocks;
    if (c_.user && c_.user->attention->has_mask) {
        if (Status s = blocks.make(context_, c_, {1, variant.tile_q, variant.kv_block}); !s.ok()) return s;
        shared.blocks = blocks.view();
    }
    const int threads = worthwhile_threads(p_, threads_);
    if (Status s = run_tables(shared, threads); !s.ok()) return s;
    return run_tile_tasks(shared, threads);
}

// The gradients of bias and slopes, where they have a kernel of their own.
Status BackwardRun::run_tables(const BackwardShared &shared, int threads) {
    if (!choice_.captures.variant) return {};
    BackwardShared of_captures = shared;
    of_captures.bounds = bounds_for(*choice_.captures.variant, shared.lengths, layout_.capture_bounds);
    return run_captures(context_, of_captures, choice_, threads);
}

// The gradients of query, key and value, of a bias that the tiles give, of a user's captures, and of the weights.
Status BackwardRun::run_tile_tasks(const BackwardShared &shared, int threads) {
    const VariantRecord &variant = *choice_.tiles.variant;
    const bool key = call_.key.given(), value = call_.value.given();
    if (!key) own_.unwanted_key = typed(layout_.unwanted_key, p_.dtype, {p_.batch, p_.key_heads, p_.keys, p_.head_dim});
    if (!value) own_.unwanted_value = typed(layout_.unwanted_value, p_.dtype, {p_.batch, p_.key_heads, p_.keys, p_.value_dim});
    const std::vector<TileTask> tasks = tasks_of(call_, choice_, threads);
    if (c_.user)
        if (Status s = check_captures_of_tasks(context_, shared, variant, own_, tasks); !s.ok()) return s;
    if (Status s = run_user_captures(context_, shared, choice_, threads); !s.ok()) return s;
    if (!call_.query.given() && !key && !value && !call_.pair_weight.given() && !choice_.bias_with_tiles) return {};
    Status s = run_tasks(context_, static_cast<std::int64_t>(tasks.size()), threads, [&](std::int64_t n, int) {
        return run_task(context_, shared, variant, own_, tasks[static_cast<std::size_t>(n)]);
    });
    if (!s.ok() || !call_.pair_weight.given()) return s;
    return run_linear_backward(context_, sum_of_weights_, start_of_call());
}

}  // namespace

Status run_backward(Context &caller, const BackwardCall &call, BackwardChoice &choice, int threads) {
    if (!has_pairs(call.forward.sizes)) choice.tiles = {nullptr, "no pairs of a query and a key"};
    return BackwardRun(state_of(caller), call, choice, threads).run();
}

}  // namespace attune
