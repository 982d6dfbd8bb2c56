// SPDX-License-Identifier: MIT
// Kernel arguments of a checked call.
#include "attention/dropout_threshold.h"
#include "attention/sdpa_arguments.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "tensors/max_magnitude.h"
#include "user_attention/user_call.h"
#include <algorithm>
#include <optional>
#include <vector>

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
    Form form{Form::Kind::plain, Form::Pair::dot_product, Form::Cache::dense, Form::User::none};
    if (c.row_shift.given()) form.cache = Form::Cache::pages;
    if (c.op.id == OpId::sdpa_int8) form.cache = Form::Cache::int8;
    if (c.op.id == OpId::sdpa_int4) form.cache = Form::Cache::int4;
    if (variant.kind_id == Kind::scored) form.kind = Form::Kind::scored;
    if (variant.kind_id == Kind::training) form.kind = Form::Kind::training;
    if (variant.kind_id == Kind::weights) form.kind = Form::Kind::weights;
    if (c.pair_weight.given()) form.pair = Form::Pair::additive;
    if (c.user) form.user = c.user->attention->has_mask ? Form::User::masked : Form::User::unmasked;
    return form;
}

// Key heads that a task of decode reads, where rows are in pages: as many as leave each thread some tasks, since heads share
// the pages that a task opens.
std::int32_t heads_of_task(const SdpaProblem &p, const VariantRecord &variant, int threads) {
    const std::int64_t blocks = p.batch * ceil_div(p.keys, std::max<std::int64_t>(variant.kv_block, 1)),
                       tasks = threads == 1 ? 1 : 4 * threads;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(p.key_heads * blocks / tasks, 1, p.key_heads));
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

namespace {

// Buffers of the scales of quantised rows.
struct ScaleBuffers {
    HalideBuffer key_f16, value_f16, key_f32, value_f32, key_minimum, value_minimum;

    explicit ScaleBuffers(const SdpaCall &c)
        : key_f16(scales_of_type(c.key_scales.scale, DType::f16, c.key)),
          value_f16(scales_of_type(c.value_scales.scale, DType::f16, c.value)),
          key_f32(scales_of_type(c.key_scales.scale, DType::f32, c.key)),
          value_f32(scales_of_type(c.value_scales.scale, DType::f32, c.value)),
          key_minimum(scales_of_type(c.key_scales.minimum, DType::f16, c.key)),
          value_minimum(scales_of_type(c.value_scales.minimum, DType::f16, c.value)) {}
};

// The call of one kernel, of the values or of the weights: the tensors that it takes beside the caller's, and their memory.
class KernelCall {
public:
    KernelCall(Context::State &context, const SdpaCall &call, const VariantRecord &variant, const View *to_weights)
        : context_(context), c_(call), p_(call.sizes), variant_(variant), to_weights_(to_weights),
          masked_(!to_weights || call.weights_mode >= WeightsMode::masked), every_key_(static_cast<std::int32_t>(p_.keys)),
          open_begin_(-static_cast<std::int32_t>(p_.queries)), lengths_(call.lengths) {
        if (!masked_ || !lengths_.given()) lengths_ = ConstView(&every_key_, {p_.batch, p_.queries}, {0, 0});
    }
    KernelCall(const KernelCall &) = delete;  // lengths_ may point into it

    Status run() {
        if (Status s = prepare_tensors(); !s.ok()) return s;
        if (Status s = find_finite_values(); !s.ok()) return s;
        if (c_.user && c_.user->attention->has_mask)
            if (Status s = blocks_.make(context_, c_, block_sides(c_, variant_)); !s.ok()) return s;
        return call();
    }

    // Refuses captures that are smaller than the kernel reads, and computes nothing: Halide checks buffers in the order of
    // their names, captures, capture_..., before the value, which has no rows here.
    Status check_captures() {
        if (Status s = prepare_tensors(); !s.ok()) return s;
        finite_values_.assign(static_cast<std::size_t>(p_.batch), 0);
        checks_captures_ = true;
        const Status refused = call();
        if (refused.ok()) return {StatusCode::internal, "a kernel does not check the bounds of its buffers"};
        return refused.message().find("buffer value") == std::string_view::npos ? refused : Status();
    }

private:
    Status prepare_tensors();
    Status find_finite_values();
    Status call();

    ConstView one(const std::int32_t &x) const { return ConstView(&x, {p_.batch}, {0}); }
    ConstView per_batch(const std::vector<std::int32_t> &x) const {
        return x.size() == 1 ? one(x[0]) : ConstView(x.data(), {p_.batch});
    }
    // Stand-ins for arguments that are not given: never read, but with the extents that kernels ask for.
    ConstView table(const ConstView &v, DType type) const {
        return v.given() ? v : typed_view(&nothing, type, {p_.batch, p_.query_heads, p_.queries, p_.keys}, {0, 0, 0, 1});
    }
    ConstView per_head(const ConstView &v, bool batched) const {
        if (v.given()) return v;
        return batched ? typed_view(&nothing, DType::f32, {p_.batch, p_.query_heads}, {0, 0})
                       : typed_view(&nothing, DType::f32, {p_.query_heads}, {0});
    }

    // A table with as many blocks as any kernel asks for.
    ConstView any_blocks() const {
        const std::int64_t rows = p_.query_heads * p_.queries;
        return typed_view(&nothing, DType::i32, {p_.batch, p_.query_heads, rows, p_.keys}, {0, 0, 0, 1});
    }

    static std::int32_t blocks_of_group(const RowScales &s) { return static_cast<std::int32_t>(s.group / 32); }

    static constexpr double nothing = 0;
    Context::State &context_;
    const SdpaCall &c_;
    const SdpaProblem &p_;
    const VariantRecord &variant_;
    const View *to_weights_;  // null: the kernel of the values
    const bool masked_;       // lengths, band, bias, ALiBi, mask and sinks take part
    const std::int32_t every_key_, open_begin_;
    ConstView lengths_;
    std::optional<ScratchBlock> memory_;
    LengthBounds bounds_;
    ConstView bias_, mask_;
    View lse_;
    std::vector<std::int32_t> finite_values_;  // of each entry; 0: its values may hold anything
    BlockTable blocks_;                        // of a user's mask
    bool checks_captures_ = false;
};

// Takes one block of scratch for the bounds of the lengths, two per query at most, copies of tables, and lse, which the kernel
// of the values always writes.
Status KernelCall::prepare_tensors() {
    auto rounded = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::int64_t bounds_bytes = rounded(bytes_of_bounds(p_));
    const std::int64_t bias_bytes = bytes_of_expansion(c_.bias, p_.keys), mask_bytes = bytes_of_expansion(c_.mask, p_.keys);
    const DType lse_type = sum_type(p_.dtype);
    const std::int64_t lse_bytes =
        to_weights_ || c_.lse.given() ? 0 : p_.batch * p_.query_heads * p_.queries * size_of(lse_type);
    memory_.emplace(*context_.scratch, static_cast<std::size_t>(bounds_bytes + bias_bytes + mask_bytes + lse_bytes));
    if (!memory_->data()) return no_memory();
    char *memory = static_cast<char *>(memory_->data());
    // In the split form a tile holds rows of any query: one pair of bounds serves the whole batch entry.
    const std::int64_t tile = is_prefill(variant_) || variant_.schedule_id == Schedule::rows ? variant_.tile_q : p_.queries;
    bounds_ = bound_lengths(lengths_, p_, tile, reinterpret_cast<std::int32_t *>(memory));
    bias_ = dense_along_keys(c_.bias, p_.keys, memory += bounds_bytes);
    mask_ = dense_along_keys(c_.mask, p_.keys, memory += bias_bytes);
    lse_ = c_.lse;
    if (!lse_.given()) {
        lse_ = View(reinterpret_cast<float *>(memory + mask_bytes), {p_.batch, p_.query_heads, p_.queries});
        lse_.dtype = lse_type;
    }
    return {};
}

Status KernelCall::find_finite_values() {
    finite_values_.assign(static_cast<std::size_t>(p_.batch), 0);
    if (to_weights_ || c_.row_shift.given() || !looks_at_values(c_, variant_)) return {};
    std::vector<float> largest(finite_values_.size());
    // Where every key takes part, the last key stands for those beyond it in its KV block.
    const ConstView left_out = leaves_keys_out(c_) ? c_.value : part_of(c_.value, 2, p_.keys - 1, 1);
    if (Status s = max_magnitude(context_, left_out, largest.data()); !s.ok()) return s;
    for (std::size_t b = 0; b < largest.size(); b++) finite_values_[b] = all_finite(largest[b]);
    return {};
}

Status KernelCall::call() {
    static constexpr std::int32_t in_order = 0;
    HalideBuffer row_shift(c_.row_shift.given() ? c_.row_shift : ConstView(&in_order, {p_.batch, p_.keys}, {0, 0}));
    HalideBuffer query(c_.query), key(c_.key), value(checks_captures_ ? part_of(c_.value, 2, 0, 0) : c_.value),
        band_begin(masked_ ? per_batch(c_.band_begin) : one(open_begin_)),
        band_end(masked_ ? per_batch(c_.band_end) : one(every_key_)), offset(per_batch(c_.offset)), lengths(lengths_),
        shortest(bounds_.shortest), longest(bounds_.longest), pair_weight(c_.pair_weight), bias(table(bias_, p_.dtype)),
        slopes(per_head(c_.slopes, true)), mask(table(mask_, DType::boolean)), sinks(per_head(c_.sinks, false)),
        out(to_weights_ ? *to_weights_ : c_.out), lse(lse_, p_.value_dim),
        finite_values(ConstView(finite_values_.data(), {p_.batch}));
    std::optional<ScaleBuffers> scales;
    if (is_quantised(c_)) scales.emplace(c_);
    const auto scale = [&](HalideBuffer ScaleBuffers::*buffer) { return scales ? ((*scales).*buffer).get() : nullptr; };
    const double probability = p_.dropout ? c_.dropout.probability : 0;
    std::optional<HalideBuffer> blocks;
    if (blocks_.view().given()) blocks.emplace(blocks_.view());
    if (checks_captures_) blocks.emplace(any_blocks());
    std::optional<CaptureArguments> captures;
    if (c_.user) captures.emplace(*c_.user, p_);
    const int threads = threads_of_kernel(worthwhile_threads(p_, context_.threads));
    const AttentionArguments arguments{.query = query.get(),
                                       .key = key.get(),
                                       .band_begin = band_begin.get(),
                                       .band_end = band_end.get(),
                                       .offset = offset.get(),
                                       .lengths = lengths.get(),
                                       .shortest = shortest.get(),
                                       .longest = longest.get(),
                                       .scale = c_.scale,
                                       .row_shift = row_shift.get(),
                                       .keys = every_key_,
                                       .heads_of_task = heads_of_task(p_, variant_, threads),
                                       .value = value.get(),
                                       .key_scale_f16 = scale(&ScaleBuffers::key_f16),
                                       .value_scale_f16 = scale(&ScaleBuffers::value_f16),
                                       .key_scale_f32 = scale(&ScaleBuffers::key_f32),
                                       .value_scale_f32 = scale(&ScaleBuffers::value_f32),
                                       .key_scale_is_f16 = c_.key_scales.are_f16(),
                                       .value_scale_is_f16 = c_.value_scales.are_f16(),
                                       .key_minimum = scale(&ScaleBuffers::key_minimum),
                                       .value_minimum = scale(&ScaleBuffers::value_minimum),
                                       .key_blocks_of_group = blocks_of_group(c_.key_scales),
                                       .value_blocks_of_group = blocks_of_group(c_.value_scales),
                                       .pair_weight = pair_weight.get(),
                                       .pair_bias = c_.pair_bias,
                                       .softcap = to_weights_ && c_.weights_mode == WeightsMode::scaled ? 0 : c_.softcap,
                                       .has_bias = masked_ && bias_.given(),
                                       .bias = bias.get(),
                                       .has_alibi = masked_ && c_.slopes.given(),
                                       .slopes = slopes.get(),
                                       .has_mask = masked_ && mask_.given(),
                                       .mask = mask.get(),
                                       .has_sinks = masked_ && c_.sinks.given(),
                                       .sinks = sinks.get(),
                                       .finite_values = finite_values.get(),
                                       .seed_low = static_cast<std::uint32_t>(c_.dropout.seed),
                                       .seed_high = static_cast<std::uint32_t>(c_.dropout.seed >> 32),
                                       .dropout_offset = c_.dropout.offset,
                                       .first_query = c_.dropout.first_query,
                                       .first_key = c_.dropout.first_key,
                                       .first_head = c_.first_head,
                                       .counted_heads = counted_heads(c_.dropout, p_.query_heads),
                                       .threshold = static_cast<std::uint32_t>(dropout_threshold(probability)),
                                       .keep_scale = 1 / (1 - probability),
                                       .probabilities = c_.weights_mode == WeightsMode::probabilities,
                                       .blocks = blocks ? blocks->get() : nullptr,
                                       .captures = captures ? captures->list() : CaptureList({}),
                                       .out = out.get(),
                                       .lse = lse.get()};
    const auto kernel = c_.row_shift.given() && !is_quantised(c_) ? variant_.pages_kernel : variant_.kernel;
    return call_kernel(context_, kernel, arguments, form_of(c_, variant_), threads);
}

}  // namespace

Status run_kernel(Context::State &context, const SdpaCall &c, const VariantRecord &variant, const View *to_weights) {
    return KernelCall(context, c, variant, to_weights).run();
}

Status check_captures_of_kernel(Context::State &context, const SdpaCall &c, const VariantRecord &variant) {
    return KernelCall(context, c, variant, nullptr).check_captures();
}

}  // namespace attune
