// linear, attention and linear again; what lies between them is scratch of the Context, whose strides split and merge heads.
#include "attune/multi_head.h"
#include "linear_call.h"
#include "op_call.h"
#include <algorithm>
#include <array>

namespace attune {
namespace {

struct Layer {
    const ConstView &query, &key, &value;
    const MultiHeadWeights &weights;
    const View &out;
    std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, head_dim = 0, value_dim = 0;
    bool packed = false;  // one product gives the projections of query, key and value
};

Status check_sequence(std::string_view name, const ConstView &v, const ConstView &query) {
    if (v.rank != 3) return invalid(name, "rank must be 3 (B, S, E), got " + text(v.rank));
    if (Status s = check_rows(name, v, "query", query.dtype); !s.ok()) return s;
    return check_extent(name, "batch (first extent)", v.extent[0], "query", query.extent[0]);
}

Status check_inputs(const Layer &l) {
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

Status check_heads(const MultiHeadOptions &options, Layer &l) {
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
    if (options.attention.score == Score::general) {  // its weight may take queries and keys of different sizes
        if (key_rows % l.key_heads != 0) return not_divisible("weights.key", key_rows);
    } else if (key_rows != l.key_heads * l.head_dim) {
        return invalid("weights.key", "has " + text(key_rows) + " rows; " + text(l.key_heads) + " key heads of size " +
                                          text(l.head_dim) + " need " + text(l.key_heads * l.head_dim));
    }
    return value_rows % l.key_heads == 0 ? Status() : not_divisible("weights.value", value_rows);
}

Status check_output(Layer &l) {
    const ConstView &w = l.weights.out;
    if (w.rank != 2) return invalid("weights.out", "rank must be 2 (Eo, heads * Dv), got " + text(w.rank));
    if (Status s = check_rows("weights.out", w, "query", l.query.dtype); !s.ok()) return s;
    if (w.extent[0] < 1) return invalid("weights.out", "first extent must be at least 1, got " + text(w.extent[0]));
    if (w.extent[1] != l.heads * l.value_dim)
        return invalid("weights.out", "width (last extent) is " + text(w.extent[1]) + "; " + text(l.heads) + " heads of size " +
                                          text(l.value_dim) + " give " + text(l.heads * l.value_dim));
    if (Status s = check_bias("weights.out_bias", l.weights.out_bias, "weights.out", w); !s.ok()) return s;
    if (Status s = check_sequence("out", l.out, l.query); !s.ok()) return s;
    if (Status s = check_extent("out", "number of queries", l.out.extent[1], "query", l.query.extent[1]); !s.ok()) return s;
    if (l.out.extent[2] == w.extent[0]) return {};
    return invalid("out", "width (last extent) is " + text(l.out.extent[2]) + ", the number of rows of weights.out is " +
                              text(w.extent[0]));
}

// The attention itself sees scratch and its options only, so what meets here is checked here. A view that is not as it must
// be is left to the attention, which refuses it.
Status check_outputs_apart(const Layer &l, const SdpaOptions &o) {
    const MultiHeadWeights &w = l.weights;
    const std::array<NamedView, 19> inputs{{{"query", l.query},
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
                                            {"sinks", o.sinks}}};
    const std::array<NamedView, 3> outputs{{{"out", l.out}, {"lse", o.lse}, {"weights", o.weights}}};
    for (const auto &[name, view] : inputs)
        if (view.rank < 0 || view.rank > max_rank) return invalid(name, "rank must be at most 4, got " + text(view.rank));
    for (const auto &[name, view] : outputs) {
        if (view.rank < 0 || view.rank > max_rank) return invalid(name, "rank must be at most 4, got " + text(view.rank));
        if (!view.given()) continue;
        if (Status s = check_memory(name, view); !s.ok()) return s;
    }
    return check_overlaps(inputs, outputs);
}

bool same(const ConstView &a, const ConstView &b) {
    return a.data == b.data && std::equal(a.extent, a.extent + a.rank, b.extent) &&
           std::equal(a.stride, a.stride + a.rank, b.stride);
}

// The rows of b follow those of a, as in one array. Both left out counts as following.
bool follows(const ConstView &a, const ConstView &b) {
    if (!a.given() || !b.given()) return !a.given() && !b.given();
    return a.stride[0] == b.stride[0] &&
           b.data == static_cast<const char *>(a.data) + a.extent[0] * a.stride[0] * size_of(a.dtype);
}

bool is_packed(const Layer &l) {
    const MultiHeadWeights &w = l.weights;
    return same(l.query, l.key) && same(l.query, l.value) && follows(w.query, w.key) && follows(w.key, w.value) &&
           follows(w.query_bias, w.key_bias) && follows(w.key_bias, w.value_bias);
}

// Rows of `width` elements in scratch. A line longer than they are: rows a power of two apart would meet in few sets of the
// caches.
std::int64_t row_stride(std::int64_t width, DType type) { return width + std::max(16, 64 / size_of(type)); }

View sequence(char *data, DType dtype, std::int64_t batch, std::int64_t count, std::int64_t width, std::int64_t stride) {
    View v(reinterpret_cast<float *>(data), {batch, count, width}, {count * stride, stride, 1});
    v.dtype = dtype;
    return v;
}

// (B, S, heads * D) seen as (B, heads, S, D).
View split_heads(const View &v, std::int64_t heads) {
    const std::int64_t head_dim = v.extent[2] / heads;
    View split = v;
    split.rank = 4;
    split.extent[1] = heads, split.extent[2] = v.extent[1], split.extent[3] = head_dim;
    split.stride[1] = head_dim, split.stride[2] = v.stride[1], split.stride[3] = 1;
    return split;
}

// The places of the projections in scratch, and of what the attention makes of them.
struct Places {
    View query, key, value, mixed;
    View packed;             // query, key and value in one, where they are
    std::int64_t bytes = 0;  // of all
};

// Null data: only how many bytes it takes.
Places place(const Layer &l, void *data) {
    const MultiHeadWeights &w = l.weights;
    const DType dtype = l.query.dtype;
    const std::int64_t widths[] = {w.query.extent[0], w.key.extent[0], w.value.extent[0]};
    Places p;
    auto at = [&](std::int64_t bytes) { return data ? static_cast<char *>(data) + bytes : nullptr; };
    auto take = [&](std::int64_t count, std::int64_t width) {
        const std::int64_t stride = row_stride(width, dtype);
        const View v = sequence(at(p.bytes), dtype, l.batch, count, width, stride);
        p.bytes += l.batch * count * stride * size_of(dtype);
        return v;
    };
    if (l.packed) {
        p.packed = take(l.queries, widths[0] + widths[1] + widths[2]);
        auto part = [&](std::int64_t first, std::int64_t width) {
            View v = p.packed;
            v.data = at(first * size_of(dtype));
            v.extent[2] = width;
            return v;
        };
        p.query = part(0, widths[0]), p.key = part(widths[0], widths[1]), p.value = part(widths[0] + widths[1], widths[2]);
    } else {
        p.query = take(l.queries, widths[0]), p.key = take(l.keys, widths[1]), p.value = take(l.keys, widths[2]);
    }
    p.mixed = take(l.queries, l.heads * l.value_dim);
    return p;
}

Status project(Context &context, const Layer &l, const Places &p) {
    const MultiHeadWeights &w = l.weights;
    if (l.packed) {
        ConstView weight = w.query, bias = w.query_bias;
        weight.extent[0] = p.packed.extent[2];
        if (bias.given()) bias.extent[0] = p.packed.extent[2];
        return linear(context, l.query, weight, bias, p.packed);
    }
    if (Status s = linear(context, l.query, w.query, w.query_bias, p.query); !s.ok()) return s;
    if (Status s = linear(context, l.key, w.key, w.key_bias, p.key); !s.ok()) return s;
    return linear(context, l.value, w.value, w.value_bias, p.value);
}

// What has to fit 32 bits; the views have been checked one by one.
Status check_scratch(const Layer &l) {
    const MultiHeadWeights &w = l.weights;
    const std::int64_t rows = l.batch * std::max(l.queries, l.keys);
    const std::int64_t hidden = l.packed ? w.query.extent[0] + w.key.extent[0] + w.value.extent[0]
                                         : std::max({w.query.extent[0], w.key.extent[0], w.value.extent[0], w.out.extent[1]});
    if (static_cast<__int128>(rows) * row_stride(hidden, l.query.dtype) <= most_elements) return {};
    return unsupported("query",
                       "projections of " + text(rows) + " rows to width " + text(hidden) + " are more than 2^31 - 1 elements");
}

Status attend(Context &context, Layer &l, const MultiHeadOptions &options) {
    if (Status s = check_inputs(l); !s.ok()) return s;
    l.batch = l.query.extent[0], l.queries = l.query.extent[1], l.keys = l.key.extent[1];
    if (Status s = check_heads(options, l); !s.ok()) return s;
    if (Status s = check_output(l); !s.ok()) return s;
    if (Status s = check_outputs_apart(l, options.attention); !s.ok()) return s;
    l.packed = is_packed(l);
    if (Status s = check_scratch(l); !s.ok()) return s;

    Context::State &state = context.state();
    ScratchBlock block(*state.scratch, static_cast<std::size_t>(place(l, nullptr).bytes));
    if (!block.data()) return no_memory();
    const Places p = place(l, block.data());
    if (Status s = project(context, l, p); !s.ok()) return s;
    if (Status s =
            scaled_dot_product_attention(context, split_heads(p.query, l.heads), split_heads(p.key, l.key_heads),
                                         split_heads(p.value, l.key_heads), split_heads(p.mixed, l.heads), options.attention);
        !s.ok())
        return s;
    const std::string variant = state.last_variant;  // that of the attention is what a caller asks for
    if (Status s = linear(context, p.mixed, l.weights.out, l.weights.out_bias, l.out); !s.ok()) return s;
    state.last_variant = variant;
    return {};
}

}  // namespace

Status multi_head_attention(Context &context, const ConstView &query, const ConstView &key, const ConstView &value,
                            const MultiHeadWeights &weights, const View &out, const MultiHeadOptions &options) noexcept {
    return answer(context, [&](Context::State &) -> Status {
        Layer layer{.query = query, .key = key, .value = value, .weights = weights, .out = out};
        return attend(context, layer, options);
    });
}

}  // namespace attune
