// SPDX-License-Identifier: MIT
// Kernels that a call runs: those of values and weights, a product of the weights instead, or none.
#include "attention/call_in_band.h"
#include "attention/folded_groups.h"
#include "attention/gathered_rows.h"
#include "attention/sdpa_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
#include "tensors/max_magnitude.h"
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <numeric>

namespace attune {
namespace {

char *at(const View &v, std::int64_t index) { return static_cast<char *>(v.data) + index * size_of(v.dtype); }

// Writes lse of queries without keys: -inf, or the sink of the head.
void fill_lse_without_keys(const SdpaCall &call) {
    const View &l = call.lse;
    for (std::int64_t b = 0; b < l.extent[0]; b++)
        for (std::int64_t h = 0; h < l.extent[1]; h++)
            for (std::int64_t i = 0; i < l.extent[2]; i++) {
                float lse = -__builtin_inff();
                if (call.sinks.given()) lse = static_cast<const float *>(call.sinks.data)[h * call.sinks.stride[0]];
                const double wide = lse;
                const void *value = l.dtype == DType::f64 ? static_cast<const void *>(&wide) : &lse;
                std::memcpy(at(l, b * l.stride[0] + h * l.stride[1] + i * l.stride[2]), value,
                            static_cast<std::size_t>(size_of(l.dtype)));
            }
}

// Chooses the kernel that takes means over heads, before the first kernel of a call writes.
Status choose_head_mean(const Context::State &context, DType dtype, Choice &choice) {
    static constexpr Candidate candidates[] = {{Schedule::rows, "", ""}, {Schedule::root, "", ""}};
    const VariantNeeds needs{.op = ops::head_mean, .dtype = dtype};
    return choose_variant(needs, candidates, forced_variant(context, {}, needs.op), choice);
}

// out (B, 1, Sq, Sk): the mean of `all` over its heads.
Status mean_over_heads(Context::State &context, const Choice &choice, const View &all, const View &out) {
    // Contiguous rows of all queries are one row.
    const std::int64_t batch = all.extent[0], heads = all.extent[1], queries = all.extent[2], keys = all.extent[3];
    const bool follow = all.stride[2] == keys && (out.stride[2] == keys || queries == 1) && queries * keys <= most_extent;
    const std::int64_t rows = follow ? 1 : queries, width = follow ? queries * keys : keys;
    HalideBuffer by_row(
        typed_view(all.data, all.dtype, {batch, rows, heads, width}, {all.stride[0], all.stride[2], all.stride[1], 1})),
        mean(typed_view(out.data, out.dtype, {batch, rows, width}, {out.stride[0], out.stride[2], 1}));
    const double read = static_cast<double>(batch * rows * heads) * static_cast<double>(width);
    return call_kernel(context, choice.variant->kernel, HeadMeanArguments{.x = by_row.get(), .out = mean.get()},
                       worthwhile_threads(read * multiply_adds_of_a_read, context.threads));
}

// Folds heads [h * group, (h + 1) * group) into rows of one head; false where they are not contiguous.
template<typename Data> bool fold_group(BasicView<Data> &v, std::int64_t group) {
    if (group > 1 && v.extent[2] > 1 && v.stride[1] != v.extent[2] * v.stride[2]) return false;
    if (v.extent[2] == 1) v.stride[2] = v.stride[1];
    v.stride[1] *= group;
    v.extent[1] /= group, v.extent[2] *= group;
    return true;
}

// Whether the mask is one length per batch entry.
bool masked_by_batch(const SdpaCall &c) {
    if (c.mask.given() || c.bias.given() || (c.lengths.given() && c.lengths.stride[1] != 0)) return false;
    return band_is_open(c);
}

// Whether values are computed from the weights, which costs half of computing both on their own: the weights must be the
// probabilities, the caller must want no lse, dropout or invariance, and the mask must be one length per batch entry.
bool values_from_weights(const SdpaCall &c, const AttentionChoice &choice, View &weights, View &out) {
    if (!c.weights.given() || c.user || c.sizes.dtype != DType::f32 || c.weights_mode != WeightsMode::probabilities)
        return false;
    if (c.lse.given() || c.dropout.probability > 0 || !masked_by_batch(c)) return false;
    if (choice.values.forced || c.sizes.invariant) return false;
    const std::int64_t group = c.sizes.query_heads / c.sizes.key_heads;
    weights = c.weights, out = c.out;
    return fold_group(weights, group) && fold_group(out, group);
}

// The product of weights and values, and the kernel that looks for Inf and NaN in masked values.
struct ValuesFromWeights {
    ProductCall product;
    Choice magnitude;
};
Status prepare_multiply_weights(const Context::State &context, const SdpaCall &call, const View &weights, const View &out,
                                ValuesFromWeights &parts) {
    if (leaves_keys_out(call))
        if (Status s = choose_max_magnitude(context, call.value.dtype, parts.magnitude); !s.ok()) return s;
    return prepare_batch_dot(context, weights, call.value, out, {}, parts.product);
}

Status multiply_weights(Context &caller, const SdpaCall &call, const VariantRecord &values, const View &weights,
                        const View &out, const ValuesFromWeights &parts) {
    if (Status s = run_product(state_of(caller), parts.product, start_of_call()); !s.ok() || !leaves_keys_out(call)) return s;
    // A masked value must have no effect, but 0 times Inf or NaN is NaN. Sums without masked keys have the same bits.
    std::vector<float> largest(static_cast<std::size_t>(call.sizes.batch));
    const VariantRecord &magnitude = *parts.magnitude.variant;
    if (Status s = max_magnitude(state_of(caller), magnitude, call.value, largest.data()); !s.ok()) return s;
    for (std::int64_t b = 0; b < call.sizes.batch; b++) {
        float &of_entry = largest[static_cast<std::size_t>(b)];
        if (all_finite(of_entry)) continue;
        const std::int64_t keys = int_at(call.lengths, b);
        ConstView w = entries(weights, b, b + 1), v = entries(call.value, b, b + 1);
        w.extent[3] = v.extent[2] = keys;
        if (Status s = max_magnitude(state_of(caller), magnitude, v, &of_entry); !s.ok()) return s;
        Status s = all_finite(of_entry) ? batch_dot(caller, w, v, entries(out, b, b + 1))
                                        : run_kernel(state_of(caller), slice(call, b, b + 1), values, nullptr);
        if (!s.ok()) return s;
    }
    return {};
}

// Runs the kernels of the values; of the last queries by another variant, where the choice has one.
Status run_values_of_queries(Context::State &context, const SdpaCall &call, const Choice &choice) {
    if (!choice.of_last) return run_by_key_heads(context, call, *choice.variant);
    const std::int64_t queries = call.sizes.queries, first = queries - last_queries(*choice.variant, call.sizes).queries;
    if (Status s = run_by_key_heads(context, slice_queries(call, 0, first), *choice.variant); !s.ok()) return s;
    return run_by_key_heads(context, slice_queries(call, first, queries), *choice.of_last);
}

Status run_values(Context::State &context, const SdpaCall &call, const Choice &choice) {
    const std::int64_t kv_block = choice.variant->kv_block;
    const CallInBand in_band(call, choice.of_last ? std::lcm(kv_block, choice.of_last->kv_block) : kv_block);
    const SdpaCall &part = in_band.call();
    const bool in_place = reads_in_place(part, *choice.variant) && (!choice.of_last || reads_in_place(part, *choice.of_last));
    if (!part.row_shift.given() || in_place) return run_values_of_queries(context, part, choice);
    return run_gathered(context, part, [&](const SdpaCall &dense) { return run_values_of_queries(context, dense, choice); });
}

// Runs the kernels of a call with keys, with weights of each head where any are wanted.
Status run_kernels(Context &caller, const SdpaCall &call, const AttentionChoice &choice, bool &from_weights) {
    Context::State &context = state_of(caller);
    View weights, out;
    from_weights = values_from_weights(call, choice, weights, out);
    const bool drops_all = !call.sizes.dropout && call.dropout.probability > 0;
    std::optional<ValuesFromWeights> product;
    if (from_weights)
        if (Status s = prepare_multiply_weights(context, call, weights, out, product.emplace()); !s.ok()) return s;
    const bool wants_values = call.out.given();  // else the weights alone
    if (wants_values && !from_weights && (!drops_all || call.lse.given()))
        if (Status s = run_values(context, call, choice.values); !s.ok()) return s;
    if (wants_values && drops_all) fill_zeros(call.out);
    if (!call.weights.given()) return {};
    if (Status s = run_kernel(context, call, *choice.weights.variant, &call.weights); !s.ok()) return s;
    return from_weights ? multiply_weights(caller, call, *choice.values.variant, weights, out, *product) : Status();
}

// Averages weights over heads in scratch memory, for as many batch entries at a time as fit 8 MiB of cache.
Status run_averaged(Context &caller, const SdpaCall &call, const AttentionChoice &choice, bool &from_weights) {
    constexpr std::int64_t bytes_together = std::int64_t(8) << 20;
    const SdpaProblem &p = call.sizes;
    const std::int64_t entry_bytes = p.query_heads * p.queries * p.keys * size_of(p.dtype);
    const std::int64_t together = std::clamp<std::int64_t>(bytes_together / entry_bytes, 1, p.batch);
    const ScratchBlock block(*state_of(caller).scratch, static_cast<std::size_t>(together * entry_bytes));
    if (!block.data()) return no_memory();
    Choice of_mean;
    if (Status s = choose_head_mean(state_of(caller), p.dtype, of_mean); !s.ok()) return s;
    for (std::int64_t begin = 0; begin < p.batch; begin += together) {
        const std::int64_t end = std::min(begin + together, p.batch);
        SdpaCall part = slice(call, begin, end);
        part.weights = View(static_cast<float *>(block.data()), {end - begin, p.query_heads, p.queries, p.keys});
        part.weights.dtype = p.dtype;
        if (Status s = run_kernels(caller, part, choice, from_weights); !s.ok()) return s;
        const View mean = entries(call.weights, begin, end);
        if (Status s = mean_over_heads(state_of(caller), of_mean, part.weights, mean); !s.ok()) return s;
    }
    return {};
}

// Runs the kernels of a call with keys, all entries together.
Status run_together(Context &caller, const SdpaCall &call, AttentionChoice &choice) {
    bool from_weights = false;
    const bool averaged = call.average_weights && call.sizes.query_heads > 1;
    Status s = averaged ? run_averaged(caller, call, choice, from_weights) : run_kernels(caller, call, choice, from_weights);
    if (s.ok() && from_weights) choice.values = {choice.weights.variant, "the values from the weights"};
    return s;
}

// Refuses what run_together() would refuse for a part, before any part has written.
Status check_together(const Context::State &context, const SdpaCall &call, const AttentionChoice &choice) {
    SdpaCall part = call;
    const SdpaProblem &p = call.sizes;
    if (call.average_weights && p.query_heads > 1) {
        Choice of_mean;
        if (Status s = choose_head_mean(context, p.dtype, of_mean); !s.ok()) return s;
        // In place of the scratch of run_averaged(), whose elements and address the checks do not read.
        part.weights = View(static_cast<float *>(call.weights.data), {p.batch, p.query_heads, p.queries, p.keys});
        part.weights.dtype = p.dtype;
    }
    View weights, out;
    if (!call.out.given() || !values_from_weights(part, choice, weights, out)) return {};
    ValuesFromWeights product;
    return prepare_multiply_weights(context, part, weights, out, product);
}

Status run_by_groups(Context &caller, const SdpaCall &call, AttentionChoice &choice) {
    // Raw scores are written for every key, held or not.
    const bool raw_scores = call.weights.given() && call.weights_mode < WeightsMode::masked;
    SdpaCall held = call;
    if (raw_scores) held.weights = {}, held.average_weights = false;
    SdpaCall weights = call;
    weights.out = {}, weights.lse = {};
    AttentionChoice of_weights{{}, choice.weights, {}};
    if (raw_scores)
        if (Status s = check_together(state_of(caller), weights, of_weights); !s.ok()) return s;
    for (const EntryGroup &group : choice.groups)
        if (held.weights.given())
            if (Status s = check_together(state_of(caller), slice(held, group), {group.values, choice.weights, {}}); !s.ok())
                return s;
    const EntryGroup &largest = most_work(choice.groups);
    for (const EntryGroup &group : choice.groups) {
        const SdpaCall part = slice(held, group);
        AttentionChoice of_part{group.values, choice.weights, {}};
        if (held.weights.given())
            fill_weights_behind(entries(held.weights, group.begin, group.end), group.keys, held.weights_mode);
        if (Status s = run_together(caller, part, of_part); !s.ok()) return s;
        if (&group == &largest) choice.values = of_part.values;
    }
    return raw_scores ? run_together(caller, weights, of_weights) : Status();
}

}  // namespace

Status run_attention(Context &caller, const SdpaCall &call, AttentionChoice &choice) {
    const SdpaProblem &p = call.sizes;
    if (p.batch == 0 || p.query_heads == 0 || p.queries == 0) {
        if (call.weights.given()) fill_zeros(call.weights);  // the mean over no heads
        choice.values = {nullptr, "no queries"};
        return {};
    }
    if (p.keys == 0) {
        fill_zeros(call.out);
        if (call.lse.given()) fill_lse_without_keys(call);
        choice.values = {nullptr, "no keys"};
        return {};
    }
    return choice.groups.empty() ? run_together(caller, call, choice) : run_by_groups(caller, call, choice);
}

Status run_by_key_heads(Context::State &context, const SdpaCall &call, const VariantRecord &variant) {
    if (runs_folded(call, variant))
        return run_folded(context, call, [&](const SdpaCall &folded) { return run_by_key_heads(context, folded, variant); });
    const SdpaProblem &p = call.sizes;
    const bool far = variant.schedule_id == Schedule::amx && !has_32_bit_places(call);
    const std::int64_t together = far ? 1 : key_heads_together(variant, p, context.threads);
    if (call.user || (!far && together >= p.batch * p.key_heads)) return run_kernel(context, call, variant, nullptr);
    for (std::int64_t b = 0; b < p.batch; b++) {
        const SdpaCall entry = slice(call, b, b + 1);
        for (std::int64_t h = 0; h < p.key_heads; h += together) {
            const SdpaCall part = slice_key_heads(entry, h, std::min(h + together, p.key_heads));
            if (Status s = run_kernel(context, part, variant, nullptr); !s.ok()) return s;
        }
    }
    return {};
}

std::string sizes_text(const SdpaProblem &p) {
    char text[160];
    std::snprintf(text, sizeof text, "b %lld h %lld/%lld q %lld k %lld d %lld/%lld", static_cast<long long>(p.batch),
                  static_cast<long long>(p.query_heads), static_cast<long long>(p.key_heads), static_cast<long long>(p.queries),
                  static_cast<long long>(p.keys), static_cast<long long>(p.head_dim), static_cast<long long>(p.value_dim));
    return text;
}

}  // namespace attune
