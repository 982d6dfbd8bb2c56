// From a checked call to the arguments of its kernels.
#include "attune/linear.h"
#include "dropout_threshold.h"
#include "halide_call.h"
#include "max_magnitude.h"
#include "sdpa_call.h"
#include <algorithm>
#include <cstring>
#include <limits>

namespace attune {
namespace {

char *at(const View &v, std::int64_t index) { return static_cast<char *>(v.data) + index * size_of(v.dtype); }

// lse of queries without keys: -inf, or the sink of the head.
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

// The extremes of lengths over the queries of a tile, as the kernels want them: (B, tiles).
struct LengthBounds {
    ConstView shortest, longest;
};

LengthBounds bound_lengths(const ConstView &lens, const SdpaProblem &sizes, const VariantRecord &variant,
                           std::int32_t *storage) {
    const std::int64_t queries = sizes.queries, batch = sizes.batch;
    LengthBounds bounds{lens, lens};
    // In the split form a tile holds rows of any query, so one pair of bounds serves the whole batch entry.
    const bool tiled = variant.schedule == "prefill" || variant.schedule == "rows";
    const std::int64_t tile = tiled ? variant.tile_q : queries;
    const std::int64_t tiles = (queries + tile - 1) / tile;
    const bool per_query = lens.stride[1] != 0 && queries > 1;
    if (per_query) {
        const auto *data = static_cast<const std::int32_t *>(lens.data);
        std::int32_t *shortest = storage, *longest = storage + batch * tiles;
        for (std::int64_t b = 0; b < batch; b++)
            for (std::int64_t i = 0; i < queries; i++) {
                const std::int32_t n = data[b * lens.stride[0] + i * lens.stride[1]];
                std::int32_t &low = shortest[b * tiles + i / tile], &high = longest[b * tiles + i / tile];
                low = i % tile ? std::min(low, n) : n;
                high = i % tile ? std::max(high, n) : n;
            }
        bounds = {ConstView(shortest, {batch, tiles}), ConstView(longest, {batch, tiles})};
    }
    if (!per_query || tiles == 1)
        for (ConstView *v : {&bounds.shortest, &bounds.longest}) {
            v->extent[1] = sizes.query_heads * queries;  // at least the number of tiles of any schedule
            v->stride[1] = 0;
        }
    return bounds;
}

ConstView typed(const void *data, DType type, std::initializer_list<std::int64_t> extents,
                std::initializer_list<std::int64_t> strides) {
    ConstView v(static_cast<const float *>(data), extents, strides);
    v.dtype = type;
    return v;
}

// A table over pairs as kernels read it, dense along the keys: one that has a single element for all keys is written out
// to `copy`. Dimensions that broadcast stay single.
struct Expanded {
    std::int64_t extent[3];
    std::int64_t bytes = 0;
};
Expanded expansion_of(const ConstView &v, std::int64_t keys) {
    Expanded e{{1, 1, 1}};
    if (!v.given() || v.extent[3] == keys) return e;
    std::int64_t rows = 1;
    for (int n = 0; n < 3; n++) rows *= e.extent[n] = v.stride[n] == 0 ? 1 : v.extent[n];
    e.bytes = (rows * keys * size_of(v.dtype) + 63) / 64 * 64;
    return e;
}
ConstView dense_along_keys(const ConstView &v, std::int64_t keys, char *copy) {
    const Expanded e = expansion_of(v, keys);
    if (e.bytes == 0) return v;
    ConstView d = v;
    const auto size = static_cast<std::size_t>(size_of(v.dtype));
    d.data = copy;
    d.extent[3] = keys, d.stride[3] = 1;
    std::int64_t dense = keys;
    for (int n = 2; n >= 0; n--) {
        d.stride[n] = v.stride[n] == 0 ? 0 : dense;
        dense *= e.extent[n];
    }
    for (std::int64_t b = 0; b < e.extent[0]; b++)
        for (std::int64_t h = 0; h < e.extent[1]; h++)
            for (std::int64_t i = 0; i < e.extent[2]; i++) {
                const char *from = static_cast<const char *>(v.data) +
                                   (b * v.stride[0] + h * v.stride[1] + i * v.stride[2]) * size_of(v.dtype);
                for (std::int64_t j = 0; j < keys; j++, copy += size) std::memcpy(copy, from, size);
            }
    return d;
}

bool finite(float largest) { return largest <= std::numeric_limits<float>::max(); }

// One kernel: of the values, or of the weights where `to_weights`.
Status run_kernel(Context::State &context, const SdpaCall &c, const VariantRecord &variant, const View *to_weights) {
    const SdpaProblem &p = c.sizes;
    const std::int32_t every_key = static_cast<std::int32_t>(p.keys), none = -static_cast<std::int32_t>(p.queries);
    const bool masked = !to_weights || c.weights_mode >= WeightsMode::masked;
    ConstView lengths = c.lengths;
    if (!masked || !lengths.given()) lengths = ConstView(&every_key, {p.batch, p.queries}, {0, 0});

    // One block: the bounds of the lengths, two for each query at most, copies of tables, and lse, which the kernel of the
    // values always writes.
    auto rounded = [](std::int64_t bytes) { return (bytes + 63) / 64 * 64; };
    const std::int64_t bounds_bytes = rounded(2 * static_cast<std::int64_t>(sizeof(std::int32_t)) * p.batch * p.queries);
    const std::int64_t bias_bytes = expansion_of(c.bias, p.keys).bytes, mask_bytes = expansion_of(c.mask, p.keys).bytes;
    const std::int64_t lse_bytes = to_weights || c.lse.given() ? 0 : p.batch * p.query_heads * p.queries * size_of(p.dtype);
    ScratchBlock block(*context.scratch, static_cast<std::size_t>(bounds_bytes + bias_bytes + mask_bytes + lse_bytes));
    if (!block.data()) return no_memory();
    char *memory = static_cast<char *>(block.data());
    const LengthBounds bounds = bound_lengths(lengths, p, variant, reinterpret_cast<std::int32_t *>(memory));
    const ConstView bias = dense_along_keys(c.bias, p.keys, memory += bounds_bytes);
    const ConstView mask = dense_along_keys(c.mask, p.keys, memory += bias_bytes);
    View lse = c.lse;
    if (!lse.given()) {
        lse = View(reinterpret_cast<float *>(memory + mask_bytes), {p.batch, p.query_heads, p.queries});
        lse.dtype = p.dtype;
    }
    auto one = [&](const std::int32_t &x) { return ConstView(&x, {p.batch}, {0}); };
    auto per_batch = [&](const std::vector<std::int32_t> &x) {
        return x.size() == 1 ? one(x[0]) : ConstView(x.data(), {p.batch});
    };
    // What is not given is never read, but has the extents that kernels ask for.
    static constexpr double nothing = 0;
    auto table = [&](const ConstView &v, DType type) {
        return v.given() ? v : typed(&nothing, type, {p.batch, p.query_heads, p.queries, p.keys}, {0, 0, 0, 1});
    };
    auto per_head = [&](const ConstView &v, bool batched) {
        if (v.given()) return v;
        return batched ? typed(&nothing, DType::f32, {p.batch, p.query_heads}, {0, 0})
                       : typed(&nothing, DType::f32, {p.query_heads}, {0});
    };

    // A mask or bias touches every chunk, where masked values cost time unless they are known to be finite.
    std::vector<std::int32_t> known(variant.kind == "plain" ? 0 : static_cast<std::size_t>(p.batch), 0);
    if (!to_weights && p.dtype == DType::f32 && (bias.given() || mask.given())) {
        std::vector<float> largest(known.size());
        if (Status s = max_magnitude(context, c.value, largest.data()); !s.ok()) return s;
        for (std::size_t b = 0; b < known.size(); b++) known[b] = finite(largest[b]);
    }

    HalideBuffer query(c.query), key(c.key), value(c.value), band_begin(masked ? per_batch(c.band_begin) : one(none)),
        band_end(masked ? per_batch(c.band_end) : one(every_key)), offset(per_batch(c.offset)), all_lengths(lengths),
        shortest(bounds.shortest), longest(bounds.longest), pair_weight(c.pair_weight), bias_buffer(table(bias, p.dtype)),
        slopes(per_head(c.slopes, true)), mask_buffer(table(mask, DType::boolean)), sinks(per_head(c.sinks, false)),
        out(to_weights ? *to_weights : c.out), lse_buffer(lse, p.value_dim), finite_values(ConstView(known.data(), {p.batch}));
    double softcap = to_weights && c.weights_mode == WeightsMode::scaled ? 0 : c.softcap;
    bool has_bias = masked && bias.given(), has_alibi = masked && c.slopes.given(), has_mask = masked && mask.given(),
         has_sinks = masked && c.sinks.given(), probabilities = c.weights_mode == WeightsMode::probabilities;
    auto low = static_cast<std::uint32_t>(c.dropout.seed), high = static_cast<std::uint32_t>(c.dropout.seed >> 32);
    const double probability = p.dropout ? c.dropout.probability : 0;
    auto threshold = static_cast<std::uint32_t>(dropout_threshold(probability));
    double keep_scale = 1 / (1 - probability), scale = c.scale, pair_bias = c.pair_bias;
    std::uint32_t first_head = c.first_head, dropout_offset = c.dropout.offset;

    // The order of the generator's inputs (generators/sdpa/sdpa_generator.cpp).
    std::vector<void *> args;
    args.reserve(32);
    args = {nullptr,      query.get(),       key.get(),      band_begin.get(), band_end.get(),
            offset.get(), all_lengths.get(), shortest.get(), longest.get(),    &scale};
    if (!to_weights) args.push_back(value.get());
    if (c.pair_weight.given()) args.insert(args.end(), {pair_weight.get(), &pair_bias});
    if (variant.kind != "plain")
        args.insert(args.end(), {&softcap, &has_bias, bias_buffer.get(), &has_alibi, slopes.get(), &has_mask, mask_buffer.get(),
                                 &has_sinks, sinks.get()});
    if (variant.kind == "scored" || variant.kind == "training") args.push_back(finite_values.get());
    if (variant.kind == "training")
        args.insert(args.end(), {&low, &high, &dropout_offset, &first_head, &threshold, &keep_scale});
    if (to_weights) args.push_back(&probabilities);
    args.push_back(out.get());
    if (!to_weights) args.push_back(lse_buffer.get());
    return call_kernel(context, variant.kernel, args.data(), worthwhile_threads(p, context.threads));
}

// out (B, 1, Sq, Sk), each row the product of (1 / H ... 1 / H) and (H, Sk).
Status mean_over_heads(Context &context, const View &all, const View &out) {
    const std::int64_t heads = all.extent[1];
    const std::vector<double> wide(static_cast<std::size_t>(heads), 1 / static_cast<double>(heads));
    const std::vector<float> narrow(wide.begin(), wide.end());
    const void *shares = all.dtype == DType::f64 ? static_cast<const void *>(wide.data()) : narrow.data();
    const ConstView by_query = typed(all.data, all.dtype, {all.extent[0], all.extent[2], heads, all.extent[3]},
                                     {all.stride[0], all.stride[2], all.stride[1], 1});
    View mean = out;
    mean.extent[1] = out.extent[2], mean.stride[1] = out.stride[2];
    mean.extent[2] = 1, mean.stride[2] = 0;
    return batch_dot(context, typed(shares, all.dtype, {all.extent[0], all.extent[2], 1, heads}, {0, 0, 0, 1}), by_query, mean);
}

// Heads [h * group, (h + 1) * group) as rows of one, where they follow each other in memory.
template<typename Data> bool fold_group(BasicView<Data> &v, std::int64_t group) {
    if (group > 1 && v.extent[2] > 1 && v.stride[1] != v.extent[2] * v.stride[2]) return false;
    if (v.extent[2] == 1) v.stride[2] = v.stride[1];
    v.stride[1] *= group;
    v.extent[1] /= group, v.extent[2] *= group;
    return true;
}

// Every key below one length for each batch entry takes part.
bool masked_by_batch(const SdpaCall &c) {
    if (c.mask.given() || c.bias.given() || (c.lengths.given() && c.lengths.stride[1] != 0)) return false;
    const auto open = [](const std::vector<std::int32_t> &ends, std::int64_t end) {
        return std::all_of(ends.begin(), ends.end(), [=](std::int32_t e) { return e == end; });
    };
    return open(c.band_begin, -c.sizes.queries) && open(c.band_end, c.sizes.keys);
}

// Whether the values may be computed from the weights, which costs half of computing both on their own: the weights must be
// what the values are multiplied with, nothing else be wanted of the kernel of the values, and what is masked be left out.
bool values_from_weights(const SdpaCall &c, const AttentionChoice &choice, View &weights, View &out) {
    if (c.sizes.dtype != DType::f32 || c.weights_mode != WeightsMode::probabilities || c.average_weights) return false;
    if (c.lse.given() || c.dropout.probability > 0 || choice.values.forced || !masked_by_batch(c)) return false;
    const std::int64_t group = c.sizes.query_heads / c.sizes.key_heads;
    weights = c.weights, out = c.out;
    return fold_group(weights, group) && fold_group(out, group);
}

Status multiply_weights(Context &caller, const SdpaCall &call, const VariantRecord &values, const View &weights,
                        const View &out) {
    if (Status s = batch_dot(caller, weights, call.value, out); !s.ok()) return s;
    // A masked value that is Inf or NaN must have no effect, and 0 times it has. Left out, the sums are the same.
    std::vector<float> largest(static_cast<std::size_t>(call.sizes.batch));
    if (Status s = max_magnitude(caller.state(), call.value, largest.data()); !s.ok()) return s;
    for (std::int64_t b = 0; b < call.sizes.batch; b++) {
        float &of_entry = largest[static_cast<std::size_t>(b)];
        if (finite(of_entry)) continue;
        std::int64_t keys = call.sizes.keys;
        if (call.lengths.given()) keys = static_cast<const std::int32_t *>(call.lengths.data)[b * call.lengths.stride[0]];
        ConstView w = entries(weights, b, b + 1), v = entries(call.value, b, b + 1);
        w.extent[3] = v.extent[2] = keys;
        if (Status s = max_magnitude(caller.state(), v, &of_entry); !s.ok()) return s;
        Status s = finite(of_entry) ? batch_dot(caller, w, v, entries(out, b, b + 1))
                                    : run_kernel(caller.state(), slice(call, b, b + 1), values, nullptr);
        if (!s.ok()) return s;
    }
    return {};
}

}  // namespace

Status run_attention(Context &caller, const SdpaCall &call, AttentionChoice &choice) {
    Context::State &context = caller.state();
    const SdpaProblem &p = call.sizes;
    if (p.batch == 0 || p.query_heads == 0 || p.queries == 0) {
        choice.values = {nullptr, "no queries"};
        return {};
    }
    if (p.keys == 0) {
        fill_zeros(call.out);
        if (call.lse.given()) fill_lse_without_keys(call);
        choice.values = {nullptr, "no keys"};
        return {};
    }
    View weights, out;
    if (call.weights.given() && values_from_weights(call, choice, weights, out)) {
        if (Status s = run_kernel(context, call, *choice.weights.variant, &call.weights); !s.ok()) return s;
        if (Status s = multiply_weights(caller, call, *choice.values.variant, weights, out); !s.ok()) return s;
        choice.values = {choice.weights.variant, "the values from the weights"};
        return {};
    }
    const bool drops_all = !p.dropout && call.dropout.probability > 0;
    if (!drops_all || call.lse.given())
        if (Status s = run_kernel(context, call, *choice.values.variant, nullptr); !s.ok()) return s;
    if (drops_all) fill_zeros(call.out);
    if (!call.weights.given()) return {};
    if (!call.average_weights || p.query_heads == 1) return run_kernel(context, call, *choice.weights.variant, &call.weights);

    ScratchBlock block(*context.scratch,
                       static_cast<std::size_t>(p.batch * p.query_heads * p.queries * p.keys * size_of(p.dtype)));
    if (!block.data()) return no_memory();
    View all(static_cast<float *>(block.data()), {p.batch, p.query_heads, p.queries, p.keys});
    all.dtype = p.dtype;
    if (Status s = run_kernel(context, call, *choice.weights.variant, &all); !s.ok()) return s;
    return mean_over_heads(caller, all, call.weights);
}

SdpaCall slice(const SdpaCall &call, std::int64_t begin, std::int64_t end) {
    SdpaCall part = call;
    auto cut = [&](auto &view) {
        if (view.given()) view = entries(view, begin, end);
    };
    cut(part.query), cut(part.key), cut(part.value), cut(part.out), cut(part.lse), cut(part.lengths);
    cut(part.bias), cut(part.mask), cut(part.slopes), cut(part.weights);
    for (std::vector<std::int32_t> *list : {&part.band_begin, &part.band_end, &part.offset})
        if (list->size() > 1) *list = std::vector<std::int32_t>(list->begin() + begin, list->begin() + end);
    part.sizes.batch = end - begin;
    part.first_head = static_cast<std::uint32_t>(begin * call.sizes.query_heads);
    return part;
}

}  // namespace attune
