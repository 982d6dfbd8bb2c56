// SPDX-License-Identifier: MIT
// Attention of tensors on a device: checks that need no elements, choice, and the kernel.
#include "attention/attention_cost.h"
#include "attention/dropout_threshold.h"
#include "attention/sdpa_device_call.h"
#include "dispatch/variant_table.h"
#include "user_attention/user_call.h"
#include <limits>

namespace attune {
namespace {

// Largest offset that kernels keep on the device, and an end of a band that is beyond all keys at any such offset.
constexpr std::int64_t far = std::int64_t(1) << 29, unbounded = 2 * far;

std::vector<NamedView> all_views(const ConstView &query, const ConstView &key, const ConstView &value, const View &out,
                                 const SdpaOptions &o) {
    std::vector<NamedView> all = named_inputs(query, key, value, o);
    all.insert(all.end(), {{"out", out}, {"lse", o.lse}, {"weights", o.weights}, {"score_weight", o.score_weight}});
    return all;
}

}  // namespace

Status check_device_options(const SdpaOptions &o, DType type) {
    if (type == DType::f64) return unsupported("query", "there are no kernels for f64 on a device");
    if (o.score != Score::dot_product) return unsupported("score", "tensors on a device take dot_product");
    const double p = o.dropout.probability;
    if (p > 0 && p <= 1 && dropout_threshold(p) >> 32 != 0)
        return unsupported("dropout", "of every weight (probability 1) is not computed on a device");
    if (o.invariant) return unsupported("invariant", "is not taken on a device");
    if (o.alibi && !o.alibi_slopes.given())
        return unsupported("alibi", "tensors on a device take alibi_slopes, on the device as well");
    return {};
}

namespace {

// Checks int32 (B) or, if by_query, (B, Sq); as2 is (B, Sq). The elements are not read: kernels clamp them to the keys.
Status check_device_ints(std::string_view name, const ConstView &v, const SdpaProblem &p, bool by_query, ConstView &as2) {
    if (!by_query && v.rank != 1) return invalid(name, "rank must be 1 (B), got " + text(v.rank));
    return check_row_ints(name, as_host(v), "query", p.batch, p.queries, as2);
}

void keep_band(const Band &band, DeviceBands &bands) {
    bands.begin = band.begin, bands.end = band.end;
    bands.offset = static_cast<std::int32_t>(std::clamp<std::int64_t>(band.offset, -far, far));
}
Status check_few_positions(const SdpaProblem &p) {
    if (p.queries + p.keys <= far) return {};
    return unsupported("key", "more than 2^29 queries and keys together");
}

}  // namespace

Status find_device_bands(const Band &band, const SdpaProblem &p, DeviceBands &bands) {
    keep_band(band, bands);
    bands.length = static_cast<std::int32_t>(p.keys);
    return check_few_positions(p);
}

Status find_device_bands(const SdpaOptions &o, const SdpaProblem &p, DeviceBands &bands) {
    const ConstView &offsets = o.cache_lens.given() ? o.cache_lens : o.offsets;
    const ConstView &lengths = o.cache_lens.given() ? o.cache_lens : o.valid_lens;
    if (Status s = check_few_positions(p); !s.ok()) return s;
    if (o.cache_lens.given() && (o.valid_lens.given() || o.offset || o.offsets.given()))
        return invalid("cache_lens", "given beside valid_lens, offset or offsets, which it implies");
    if (o.offset && o.offsets.given()) return invalid("offsets", "given beside offset; give one of them");
    bands.length = static_cast<std::int32_t>(o.cache_lens.given() ? p.queries : o.valid_lens.given() ? 0 : p.keys);
    if (lengths.given())
        if (Status s = check_device_ints(o.cache_lens.given() ? "cache_lens" : "valid_lens", lengths, p, !o.cache_lens.given(),
                                         bands.lengths);
            !s.ok())
            return s;
    if (!offsets.given()) {
        if (o.causal == Causal::offset && !o.offset) return invalid("offset", "must be given with Causal::offset");
        keep_band(band_of(o, o.offset, p.queries, p.keys), bands);
        return {};
    }
    if (Status s = check_device_ints(o.cache_lens.given() ? "cache_lens" : "offsets", offsets, p, false, bands.offsets);
        !s.ok())
        return s;
    const std::int64_t left = o.window.left, right = right_of_window(o);
    bands.begin = static_cast<std::int32_t>(left < 0 ? -unbounded : -std::min(left, unbounded));
    bands.end = static_cast<std::int32_t>(right < 0 ? unbounded : std::min(right, unbounded - 1) + 1);
    bands.offset = 0;
    return {};
}

bool is_aligned(const ConstView &v) {
    const std::int64_t size = size_of(v.dtype);
    bool all = reinterpret_cast<std::uintptr_t>(v.data) % 16 == 0;
    for (int n = 0; n < v.rank - 1; n++) all = all && v.stride[n] * size % 16 == 0;
    return all;
}

bool fits_on_device(const Runnable &runnable, const SdpaCall &c) {
    const SdpaProblem &p = c.sizes;
    const VariantRecord &v = *runnable.record;
    // Plain kernels of the library scale differences of scores, by a factor above 0, and multiply queries without scaling them
    // first; those of a user's attention scale scores.
    const bool scales_differences = p.score == Score::dot_product && !c.user;
    if (v.kind_id == Kind::weights || (v.kind_id == Kind::training) != p.dropout || (c.device_pages && !reads_in_place(c, v)))
        return false;
    if (v.kind_id == Kind::plain && (p.scored || (scales_differences && !(c.scale > 0)))) return false;
    if (v.head_dim == 0) return std::max(p.head_dim, p.value_dim) <= runnable.channels;
    return v.head_dim == p.head_dim && v.head_dim == p.value_dim && is_aligned(c.query) && is_aligned(c.key) &&
           is_aligned(c.value);
}

namespace {
// Whether rows of a key head are so few that a copy of their results for each split takes little memory.
bool few_rows(const SdpaProblem &p) {
    constexpr std::int64_t most_rows_in_splits = 256;
    return rows_of_key_head(p) <= most_rows_in_splits;
}
}  // namespace

DeviceNeeds needs_on_device(const SdpaCall &c) {
    return {.op = c.op,
            .dtype = c.sizes.dtype,
            .sizes = [&] { return "head sizes " + text(c.sizes.head_dim) + " and " + text(c.sizes.value_dim); },
            .fits = [&](const Runnable &v) { return fits_on_device(v, c) && (v.split_keys == 0 || few_rows(c.sizes)); },
            .order = [&](const Runnable &v) { return predicted_device_ns(c.sizes, v); },
            .predicted = true};
}

namespace {

// Rows of a key head in all splits of the keys; the splits of a row are adjacent.
std::int64_t split_rows(const SdpaProblem &p, const VariantRecord &variant) {
    const std::int64_t split_keys = parameter_of(variant, "split_keys", 1);
    return rows_of_key_head(p) * ceil_div(std::max(p.keys, std::int64_t(1)), split_keys);
}
// Refused before any kernel of a call is queued.
Status check_splits(const SdpaProblem &p, const VariantRecord &variant) {
    if (!cuts_keys(variant) || split_rows(p, variant) * p.value_dim <= std::numeric_limits<std::int32_t>::max() / p.key_heads)
        return {};
    return unsupported("key", "too many queries and splits of the keys for " + std::string(variant.name));
}

Status run_kernel(Context::State &context, const SdpaCall &c, const VariantRecord &variant, const DeviceBands &bands) {
    const SdpaProblem &p = c.sizes;
    DeviceCall call(variant);
    if (c.device_pages && !is_quantised(c)) call.kernel = variant.pages_kernel;
    const DeviceAttentionForm form = form_on_device(c, variant);
    const DeviceCaptures captures(call, c);
    const DeviceAttentionArguments inputs = attention_inputs(call, c, bands, form, captures.list());
    halide_buffer_t *state = nullptr, *sums = nullptr, *maxima = nullptr;
    if (cuts_keys(variant)) {
        const std::int64_t of_head = split_rows(p, variant);
        state = call.scratch_buffer({p.batch, p.key_heads, of_head, p.value_dim});
        sums = call.scratch_buffer({p.batch, p.key_heads, of_head}, p.value_dim);
        maxima = call.scratch_buffer({p.batch, p.key_heads, of_head}, p.value_dim);
    }
    const DeviceAttentionOutArguments outputs{
        .out = call.buffer(c.out),
        .lse = c.lse.given() ? call.buffer(c.lse, p.value_dim)
                             : call.scratch_buffer({p.batch, p.query_heads, p.queries}, p.value_dim),
        .state = state,
        .sums = sums,
        .maxima = maxima};
    inputs.append_to(call.args, form);
    outputs.append_to(call.args, form);
    return queue(context, call);
}

// Weights, from the lse of the call.
Status run_weights(Context::State &context, const SdpaCall &c, const VariantRecord &variant, const DeviceBands &bands) {
    DeviceCall call(variant);
    const DeviceAttentionForm form = form_on_device(c, variant);
    const DeviceCaptures captures(call, c);
    const DeviceAttentionArguments inputs = attention_inputs(call, c, bands, form, captures.list());
    const SdpaProblem &p = c.sizes;
    const std::int64_t heads = c.average_weights ? p.query_heads : 1;
    const DeviceWeightsArguments own{.lse = call.buffer(c.lse),
                                     .mode = static_cast<std::int32_t>(c.weights_mode),
                                     .heads_of_mean = static_cast<std::int32_t>(heads),
                                     .row_totals = call.scratch_buffer({p.batch, p.query_heads, p.queries}),
                                     .weights = call.buffer(c.weights)};
    inputs.append_to(call.args, form);
    own.append_to(call.args, form);
    return queue(context, call);
}

Status choose_weights_on_device(const Context::State &context, const SdpaCall &c, Choice &choice) {
    if (!c.weights.given() || elements_of(c.weights) == 0) return {};
    if (c.op.id != OpId::sdpa) return unsupported("weights", "are computed on a device for dot products alone");
    const SdpaProblem &p = c.sizes;
    if (p.query_heads == 0) return unsupported("average_weights", "of no heads is not computed on a device");
    DeviceNeeds needs = needs_on_device(c);
    needs.predicted = false;
    needs.fits = [&](const Runnable &v) {
        return v.record->kind_id == Kind::weights && std::max(p.head_dim, p.value_dim) <= v.channels;
    };
    return choose_on_device(context, needs, {}, choice);
}

}  // namespace

Status choose_attention_on_device(const Context::State &context, const SdpaCall &call, std::string_view variant,
                                  Choice &choice) {
    const SdpaProblem &p = call.sizes;
    choice = {nullptr, "no queries"};
    if (p.batch == 0 || p.query_heads == 0 || p.queries == 0) return {};
    DeviceNeeds needs = needs_on_device(call);
    if (!forced_variant(context, variant, call.op).name.empty())
        needs.fits = [&](const Runnable &v) { return fits_on_device(v, call); };
    if (Status s = choose_on_device(context, needs, variant, choice); !s.ok()) return s;
    if (Status s = check_splits(p, *choice.variant); !s.ok()) return s;
    if (choice.variant->kind_id == Kind::plain) return {};
    return check_pairs("query", {p.batch, p.query_heads, p.queries, p.keys}, choice.variant->kind);
}

Status run_attention_on_device(Context::State &context, const SdpaCall &call, const Choice &choice, const DeviceBands &bands) {
    return choice.variant ? run_kernel(context, call, *choice.variant, bands) : Status();
}

SdpaOptions checked_on_host(const SdpaOptions &options) {
    SdpaOptions o = as_host(options);
    o.valid_lens = o.offsets = o.cache_lens = {};
    if (options.offsets.given() || options.cache_lens.given()) o.causal = Causal::none;
    return o;
}

Status prepare_attention_on_device(const Context::State &context, const ConstView &query, const ConstView &key,
                                   const ConstView &value, const View &out, const SdpaOptions &options,
                                   std::span<const NamedView> more, const std::function<Status(SdpaCall &)> &complete,
                                   DeviceAttention &a) {
    if (Status s = check_device_options(options, query.dtype); !s.ok()) return s;
    if (Status s = check_attention(query, key, value, out, checked_on_host(options), more, a.call); !s.ok()) return s;
    if (Status s = complete(a.call); !s.ok()) return s;
    if (Status s = check_32_bit_places(all_views(query, key, value, out, options), kernels_for_a_device); !s.ok()) return s;
    if (Status s = check_32_bit_places(more, kernels_for_a_device); !s.ok()) return s;
    if (Status s = find_device_bands(options, a.call.sizes, a.bands); !s.ok()) return s;
    if (Status s = choose_weights_on_device(context, a.call, a.weights); !s.ok()) return s;
    return choose_attention_on_device(context, a.call, options.variant, a.choice);
}

Status run_prepared_on_device(Context::State &context, const DeviceAttention &a, CallStart start) {
    SdpaCall call = a.call;
    const SdpaProblem &p = call.sizes;
    const bool keeps_lse = a.weights.variant && !call.lse.given();
    const DeviceMemory lse(context,
                           keeps_lse ? static_cast<std::size_t>(p.batch * p.query_heads * p.queries) * sizeof(float) : 0);
    if (!lse.status().ok()) return lse.status();
    if (keeps_lse) call.lse = View(static_cast<float *>(lse.data()), {p.batch, p.query_heads, p.queries});
    if (Status s = run_attention_on_device(context, call, a.choice, a.bands); !s.ok()) return s;
    if (a.weights.variant)
        if (Status s = run_weights(context, call, *a.weights.variant, a.bands); !s.ok()) return s;
    record_call(context, a.choice, a.call.op.name, start, [&] { return sizes_text(a.call.sizes); });
    return {};
}

Status attention_on_device(Context &caller, const ConstView &query, const ConstView &key, const ConstView &value,
                           const View &out, const SdpaOptions &options, std::span<const NamedView> more,
                           const std::function<Status(SdpaCall &)> &complete) {
    const CallStart start = start_of_call();
    Context::State &context = state_of(caller);
    if (Status s = check_places(all_views(query, key, value, out, options), "query"); !s.ok()) return s;
    if (Status s = check_places(more, "query"); !s.ok()) return s;
    DeviceAttention a;
    if (Status s = prepare_attention_on_device(context, as_host(query), as_host(key), as_host(value), as_host(out), options,
                                               more, complete, a);
        !s.ok())
        return s;
    return run_prepared_on_device(context, a, start);
}

}  // namespace attune
