// SPDX-License-Identifier: MIT
// Kernel arguments of a checked call.
#include "attention/dropout_threshold.h"
#include "attention/sdpa_arguments.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "tensors/max_magnitude.h"
#include "user_attention/user_call.h"
#include <algorithm>
#include <cstring>

namespace attune {
namespace {

// Whether the keys differ from query to query.
bool masks_keys(const SdpaCall &c) {
    const bool user_masks = c.user && c.user->attention->has_mask;
    const bool length_of_each = c.lengths.given() && c.lengths.stride[1] != 0;
    return user_masks || length_of_each || c.bias.given() || c.mask.given() || !band_is_open(c);
}

AttentionForm form_of(const SdpaCall &c, const VariantRecord &variant) {
    using Form = AttentionForm;
    Form form{Form::Kind::plain, Form::Pair::dot_product, Form::User::none};
    if (variant.kind_id == Kind::scored) form.kind = Form::Kind::scored;
    if (variant.kind_id == Kind::training) form.kind = Form::Kind::training;
    if (variant.kind_id == Kind::weights) form.kind = Form::Kind::weights;
    if (c.pair_weight.given()) form.pair = Form::Pair::additive;
    if (c.user) form.user = c.user->attention->has_mask ? Form::User::masked : Form::User::unmasked;
    return form;
}

}  // namespace

// Whether values are searched for NaN and Inf before the kernel. In KV blocks that a mask touches, values that may hold either
// cost time again for each tile of queries; the search pays where there are several tiles, or where the KV blocks are packed as
// pairs. Plain prefill kernels know which KV blocks are full, so the last, partial block alone does not pay for the search.
bool looks_at_values(const SdpaCall &c, const VariantRecord &variant) {
    const SdpaProblem &p = c.sizes;
    if (!may_look_at_values(variant, p)) return false;
    if (variant.schedule_id == Schedule::prefill && variant.kind_id == Kind::plain) return masks_keys(c);
    return leaves_keys_out(c) || p.keys % variant.kv_block != 0;
}

// Sides of the blocks that a user's mask is evaluated for; root has no tiles and evaluates no blocks.
BlockSides block_sides(const SdpaCall &c, const VariantRecord &variant) {
    const SdpaProblem &p = c.sizes;
    if (variant.schedule_id == Schedule::root) return {p.query_heads, p.queries, p.keys};
    if (is_prefill(variant) || variant.schedule_id == Schedule::rows) return {1, variant.tile_q, variant.kv_block};
    return {p.query_heads / p.key_heads, p.queries, variant.kv_block};
}

bool leaves_keys_out(const SdpaCall &c) { return c.lengths.given() || masks_keys(c); }

bool band_is_open(const SdpaCall &c) {
    const auto all = [](const std::vector<std::int32_t> &ends, std::int64_t end) {
        return std::all_of(ends.begin(), ends.end(), [=](std::int32_t e) { return e == end; });
    };
    return all(c.band_begin, -c.sizes.queries) && all(c.band_end, c.sizes.keys);
}

Status run_kernel(Context::State &context, const SdpaCall &c, const VariantRecord &variant, const View *to_weights) {
    const SdpaProblem &p = c.sizes;
    const std::int32_t every_key = static_cast<std::int32_t>(p.keys), none = -static_cast<std::int32_t>(p.queries);
    const bool masked = !to_weights || c.weights_mode >= WeightsMode::masked;
    ConstView lengths = c.lengths;
    if (!masked || !lengths.given()) lengths = ConstView(&every_key, {p.batch, p.queries}, {0, 0});

    // One block of scratch: the bounds of the lengths, two per query at most, copies of tables, and lse, which the kernel of
    // the values always writes.
    auto rounded = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::int64_t bounds_bytes = rounded(bytes_of_bounds(p));
    const std::int64_t bias_bytes = bytes_of_expansion(c.bias, p.keys), mask_bytes = bytes_of_expansion(c.mask, p.keys);
    const DType lse_type = sum_type(p.dtype);
    const std::int64_t lse_bytes = to_weights || c.lse.given() ? 0 : p.batch * p.query_heads * p.queries * size_of(lse_type);
    ScratchBlock block(*context.scratch, static_cast<std::size_t>(bounds_bytes + bias_bytes + mask_bytes + lse_bytes));
    if (!block.data()) return no_memory();
    char *memory = static_cast<char *>(block.data());
    // In the split form a tile holds rows of any query: one pair of bounds serves the whole batch entry.
    const std::int64_t tile = is_prefill(variant) || variant.schedule_id == Schedule::rows ? variant.tile_q : p.queries;
    const LengthBounds bounds = bound_lengths(lengths, p, tile, reinterpret_cast<std::int32_t *>(memory));
    const ConstView bias = dense_along_keys(c.bias, p.keys, memory += bounds_bytes);
    const ConstView mask = dense_along_keys(c.mask, p.keys, memory += bias_bytes);
    View lse = c.lse;
    if (!lse.given()) {
        lse = View(reinterpret_cast<float *>(memory + mask_bytes), {p.batch, p.query_heads, p.queries});
        lse.dtype = lse_type;
    }
    auto one = [&](const std::int32_t &x) { return ConstView(&x, {p.batch}, {0}); };
    auto per_batch = [&](const std::vector<std::int32_t> &x) {
        return x.size() == 1 ? one(x[0]) : ConstView(x.data(), {p.batch});
    };
    // Stand-ins for arguments that are not given: never read, but with the extents that kernels ask for.
    static constexpr double nothing = 0;
    auto table = [&](const ConstView &v, DType type) {
        return v.given() ? v : typed_view(&nothing, type, {p.batch, p.query_heads, p.queries, p.keys}, {0, 0, 0, 1});
    };
    auto per_head = [&](const ConstView &v, bool batched) {
        if (v.given()) return v;
        return batched ? typed_view(&nothing, DType::f32, {p.batch, p.query_heads}, {0, 0})
                       : typed_view(&nothing, DType::f32, {p.query_heads}, {0});
    };

    std::vector<std::int32_t> known(static_cast<std::size_t>(p.batch), 0);  // 0: may hold anything
    if (!to_weights && looks_at_values(c, variant)) {
        std::vector<float> largest(known.size());
        // Where every key takes part, the last key stands for those beyond it in its KV block.
        const ConstView left_out = leaves_keys_out(c) ? c.value : part_of(c.value, 2, p.keys - 1, 1);
        if (Status s = max_magnitude(context, left_out, largest.data()); !s.ok()) return s;
        for (std::size_t b = 0; b < known.size(); b++) known[b] = all_finite(largest[b]);
    }

    HalideBuffer query(c.query), key(c.key), value(c.value), band_begin(masked ? per_batch(c.band_begin) : one(none)),
        band_end(masked ? per_batch(c.band_end) : one(every_key)), offset(per_batch(c.offset)), all_lengths(lengths),
        shortest(bounds.shortest), longest(bounds.longest), pair_weight(c.pair_weight), bias_buffer(table(bias, p.dtype)),
        slopes(per_head(c.slopes, true)), mask_buffer(table(mask, DType::boolean)), sinks(per_head(c.sinks, false)),
        out(to_weights ? *to_weights : c.out), lse_buffer(lse, p.value_dim), finite_values(ConstView(known.data(), {p.batch}));
    const double probability = p.dropout ? c.dropout.probability : 0;
    BlockTable blocks;
    std::optional<HalideBuffer> blocks_buffer;
    std::optional<CaptureArguments> captures;
    if (c.user) {
        if (c.user->attention->has_mask) {
            if (Status s = blocks.make(context, c, block_sides(c, variant)); !s.ok()) return s;
            blocks_buffer.emplace(blocks.view());
        }
        captures.emplace(*c.user);
    }
    const AttentionArguments arguments{.query = query.get(),
                                       .key = key.get(),
                                       .band_begin = band_begin.get(),
                                       .band_end = band_end.get(),
                                       .offset = offset.get(),
                                       .lengths = all_lengths.get(),
                                       .shortest = shortest.get(),
                                       .longest = longest.get(),
                                       .scale = c.scale,
                                       .value = value.get(),
                                       .pair_weight = pair_weight.get(),
                                       .pair_bias = c.pair_bias,
                                       .softcap = to_weights && c.weights_mode == WeightsMode::scaled ? 0 : c.softcap,
                                       .has_bias = masked && bias.given(),
                                       .bias = bias_buffer.get(),
                                       .has_alibi = masked && c.slopes.given(),
                                       .slopes = slopes.get(),
                                       .has_mask = masked && mask.given(),
                                       .mask = mask_buffer.get(),
                                       .has_sinks = masked && c.sinks.given(),
                                       .sinks = sinks.get(),
                                       .finite_values = finite_values.get(),
                                       .seed_low = static_cast<std::uint32_t>(c.dropout.seed),
                                       .seed_high = static_cast<std::uint32_t>(c.dropout.seed >> 32),
                                       .dropout_offset = c.dropout.offset,
                                       .first_head = c.first_head,
                                       .threshold = static_cast<std::uint32_t>(dropout_threshold(probability)),
                                       .keep_scale = 1 / (1 - probability),
                                       .probabilities = c.weights_mode == WeightsMode::probabilities,
                                       .blocks = blocks_buffer ? blocks_buffer->get() : nullptr,
                                       .captures = captures ? captures->list() : CaptureList({}),
                                       .out = out.get(),
                                       .lse = lse_buffer.get()};
    return call_kernel(context, variant.kernel, arguments, form_of(c, variant), worthwhile_threads(p, context.threads));
}

}  // namespace attune
