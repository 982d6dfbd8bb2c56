// SPDX-License-Identifier: MIT
// A checked call of the multi-head layer, and its projections in scratch; common to the layer and its gradients.
#pragma once
#include "attention/prepared_sdpa.h"
#include "attune/multi_head.h"
#include <algorithm>
#include <array>
#include <functional>
#include <span>
#include <vector>

namespace attune {

struct MultiHeadLayer {
    const ConstView &query, &key, &value;
    const MultiHeadWeights &weights;
    std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, key_heads = 0, head_dim = 0, value_dim = 0;
    bool packed = false;  // one product gives the projections of query, key and value
};

// Checks inputs, weights and heads; fills in the rest of the layer.
Status check_layer(const MultiHeadOptions &, MultiHeadLayer &);
// Checks out, or the gradient by it: (B, Sq, Eo).
Status check_layer_out(std::string_view name, const ConstView &, const MultiHeadLayer &);
// The inputs by their names in messages, those of the attention's options included.
std::vector<NamedView> layer_inputs(const MultiHeadLayer &, const SdpaOptions &);
// Checks that outputs overlap no input: the attention itself is given scratch and its options only. A view with other faults is
// left to the attention, which refuses it.
Status check_layer_overlaps(const MultiHeadLayer &, const SdpaOptions &, std::span<const NamedView> more_inputs,
                            std::span<const NamedView> outputs);

// View of (B, S, heads * D) as (B, heads, S, D).
View split_heads(const View &, std::int64_t heads);

// Stride of rows of `width` elements in scratch: a cache line longer than a row, since rows a power of two apart would meet in
// few cache sets.
inline std::int64_t scratch_row_stride(std::int64_t width, DType type) {
    return width + std::max<std::int64_t>(16, 64 / size_of(type));
}
// A view (B, S, width) in the first line of `data` from byte `bytes` on, which moves behind it; null data: only that.
View take_sequence(void *data, std::int64_t &bytes, DType, std::int64_t batch, std::int64_t count, std::int64_t width);

// Projections in scratch, and the attention's result: (B, S, hidden).
struct Projections {
    View query, key, value, heads_out;
    View packed;  // query, key and value in one array, where one product gives them
};
Projections take_projections(const MultiHeadLayer &, void *data, std::int64_t &bytes);
// Their products: prepare(x, weight, bias, out) of each.
Status each_projection(const MultiHeadLayer &, const Projections &,
                       const std::function<Status(const ConstView &, const ConstView &, const ConstView &, const View &)> &);
class PreparedProjections {
public:
    Status prepare(const Context::State &, const MultiHeadLayer &, const Projections &);
    Status run(Context::State &) const;

private:
    std::array<ProductCall, 3> products_;
    std::size_t count_ = 0;
};
// Prepares the attention from the projections to heads_out.
Status prepare_attention(Context::State &, const MultiHeadLayer &, const Projections &, const SdpaOptions &, PreparedSdpa &);

// The layer of tensors on a device, after find_device() has found it.
Status multi_head_on_device(Context &, const ConstView &query, const ConstView &key, const ConstView &value,
                            const MultiHeadWeights &, const View &out, const MultiHeadOptions &);

}  // namespace attune
