// SPDX-License-Identifier: MIT
// Checks of the multi-head layer and of its gradients.
#include "layers/linear_call.h"
#include "layers/multi_head_call.h"
#include <algorithm>
#include <vector>

namespace attune {
namespace {

Status check_sequence(std::string_view name, const ConstView &v, const ConstView &query) {
    if (v.rank != 3) return invalid(name, "rank must be 3 (B, S, E), got " + text(v.rank));
    if (Status s = check_rows(name, v, "query", query.dtype); !s.ok()) return s;
    return check_extent(name, "batch (first extent)", v.extent[0], "query", query.extent[0]);
}

Status check_inputs(const MultiHeadLayer &l) {
    if (Status s = check_sequence("query", l.query, l.query); !s.ok()) return s;
    if (Status s = check_sequence("key", l.key, l.query); !s.ok()) return s;
    if (Status s = check_sequence("value", l.value, l.query); !s.ok()) return s;
    if (Status s = check_extent("value", "number of keys", l.value.extent[1], "key", l.key.extent[1]); !s.ok()) return s;
    const MultiHeadWeights &w = l.weights;
    struct Projection {
        std::string_view name, bias_name, x_name;
        const ConstView &weight, &bias, &x;
    } projections[] = {{"weights.query", "weights.query_bias", "query", w.query, w.query_bias, l.query},
                       {"weights.key", "weights.key_bias", "key", w.key, w.key_bias, l.key},
                       {"weights.value", "weights.value_bias", "value", w.value, w.value_bias, l.value}};
    for (const Projection &p : projections) {
        if (Status s = check_weight(p.name, p.weight, p.x_name, p.x); !s.ok()) return s;
        if (Status s = check_bias(p.bias_name, p.bias, p.name, p.weight); !s.ok()) return s;
    }
    return {};
}

Status check_heads(const MultiHeadOptions &options, MultiHeadLayer &l) {
    const std::int64_t query_rows = l.weights.query.extent[0], key_rows = l.weights.key.extent[0],
                       value_rows = l.weights.value.extent[0];
    if (options.heads < 1) return invalid("heads", "must be at least 1, got " + text(options.heads));
    l.heads = options.heads, l.key_heads = options.key_heads ? options.key_heads : options.heads;
    if (query_rows % l.heads != 0)
        return invalid("heads", text(query_rows) + " rows of weights.query are not divisible by " + text(l.heads) + " heads");
    if (l.key_heads < 1)
        return invalid("key_heads", "must be at least 1, or 0 for as many as heads, got " + text(options.key_heads));
    if (l.heads % l.key_heads != 0)
        return invalid("key_heads", "is " + text(l.key_heads) + ", which must divide the " + text(l.heads) + " heads");
    auto not_divisible = [&](std::string_view name, std::int64_t rows) {
        return invalid(name, text(rows) + " rows are not divisible by " + text(l.key_heads) + " key heads");
    };
    l.head_dim = query_rows / l.heads, l.value_dim = value_rows / l.key_heads;
    if (options.attention.score == Score::general) {  // score_weight may join queries and keys of different sizes
        if (key_rows % l.key_heads != 0) return not_divisible("weights.key", key_rows);
    } else if (key_rows != l.key_heads * l.head_dim) {
        return invalid("weights.key", "has " + text(key_rows) + " rows; " + text(l.key_heads) + " key heads of size " +
                                          text(l.head_dim) + " need " + text(l.key_heads * l.head_dim));
    }
    return value_rows % l.key_heads == 0 ? Status() : not_divisible("weights.value", value_rows);
}

Status check_out_weight(const MultiHeadLayer &l) {
    const ConstView &w = l.weights.out;
    if (w.rank != 2) return invalid("weights.out", "rank must be 2 (Eo, heads * Dv), got " + text(w.rank));
    if (Status s = check_rows("weights.out", w, "query", l.query.dtype); !s.ok()) return s;
    if (w.extent[0] < 1) return invalid("weights.out", "first extent must be at least 1, got " + text(w.extent[0]));
    if (w.extent[1] != l.heads * l.value_dim)
        return invalid("weights.out", "width (last extent) is " + text(w.extent[1]) + "; " + text(l.heads) + " heads of size " +
                                          text(l.value_dim) + " give " + text(l.heads * l.value_dim));
    return check_bias("weights.out_bias", l.weights.out_bias, "weights.out", w);
}

bool same(const ConstView &a, const ConstView &b) {
    return a.data == b.data && std::equal(a.extent, a.extent + a.rank, b.extent) &&
           std::equal(a.stride, a.stride + a.rank, b.stride);
}

// Whether the rows of b follow those of a, as in one array. Both left out counts as following.
bool follows(const ConstView &a, const ConstView &b) {
    if (!a.given() || !b.given()) return !a.given() && !b.given();
    return a.stride[0] == b.stride[0] &&
           b.data == static_cast<const char *>(a.data) + a.extent[0] * a.stride[0] * size_of(a.dtype);
}

bool is_packed(const MultiHeadLayer &l) {
    const MultiHeadWeights &w = l.weights;
    return same(l.query, l.key) && same(l.query, l.value) && follows(w.query, w.key) && follows(w.key, w.value) &&
           follows(w.query_bias, w.key_bias) && follows(w.key_bias, w.value_bias);
}

// Checks that kernels can hold the strides of the projections; the views have been checked one by one.
Status check_scratch(const MultiHeadLayer &l) {
    const MultiHeadWeights &w = l.weights;
    const std::int64_t rows = std::max(l.queries, l.keys);  // of an entry of the batch, whose stride they are
    const std::int64_t hidden = l.packed ? w.query.extent[0] + w.key.extent[0] + w.value.extent[0]
                                         : std::max({w.query.extent[0], w.key.extent[0], w.value.extent[0], w.out.extent[1]});
    if (static_cast<__int128>(rows) * scratch_row_stride(hidden, l.query.dtype) <= most_extent) return {};
    return unsupported("query", "projections of " + text(rows) + " rows of an entry of the batch to width " + text(hidden) +
                                    " are more than 2^31 - 1 elements");
}

}  // namespace

Status check_layer(const MultiHeadOptions &options, MultiHeadLayer &l) {
    if (Status s = check_inputs(l); !s.ok()) return s;
    l.batch = l.query.extent[0], l.queries = l.query.extent[1], l.keys = l.key.extent[1];
    if (Status s = check_heads(options, l); !s.ok()) return s;
    if (Status s = check_out_weight(l); !s.ok()) return s;
    l.packed = is_packed(l);
    return check_scratch(l);
}

Status check_layer_out(std::string_view name, const ConstView &out, const MultiHeadLayer &l) {
    if (Status s = check_sequence(name, out, l.query); !s.ok()) return s;
    if (Status s = check_extent(name, "number of queries", out.extent[1], "query", l.query.extent[1]); !s.ok()) return s;
    if (out.extent[2] == l.weights.out.extent[0]) return {};
    return invalid(name, "width (last extent) is " + text(out.extent[2]) + ", the number of rows of weights.out is " +
                             text(l.weights.out.extent[0]));
}

std::vector<NamedView> layer_inputs(const MultiHeadLayer &l, const SdpaOptions &o) {
    const MultiHeadWeights &w = l.weights;
    return {{"query", l.query},
            {"key", l.key},
            {"value", l.value},
            {"weights.query", w.query},
            {"weights.key", w.key},
            {"weights.value", w.value},
            {"weights.out", w.out},
            {"weights.query_bias", w.query_bias},
            {"weights.key_bias", w.key_bias},
            {"weights.value_bias", w.value_bias},
            {"weights.out_bias", w.out_bias},
            {"score_weight", o.score_weight},
            {"bias", o.bias},
            {"alibi_slopes", o.alibi_slopes},
            {"mask", o.mask},
            {"offsets", o.offsets},
            {"valid_lens", o.valid_lens},
            {"cache_lens", o.cache_lens},
            {"sinks", o.sinks}};
}

Status check_layer_overlaps(const MultiHeadLayer &l, const SdpaOptions &o, std::span<const NamedView> more_inputs,
                            std::span<const NamedView> outputs) {
    std::vector<NamedView> inputs = layer_inputs(l, o);
    inputs.insert(inputs.end(), more_inputs.begin(), more_inputs.end());
    for (const auto &[name, view] : inputs)
        if (view.rank < 0 || view.rank > max_rank) return invalid(name, "rank must be at most 4, got " + text(view.rank));
    for (const auto &[name, view] : outputs) {
        if (view.rank < 0 || view.rank > max_rank) return invalid(name, "rank must be at most 4, got " + text(view.rank));
        if (!view.given()) continue;
        if (Status s = check_memory(name, view); !s.ok()) return s;
    }
    return check_overlaps(inputs, outputs);
}

}  // namespace attune
