// SPDX-License-Identifier: MIT
// The direct call of attune.torch.scaled_dot_product_attention: no options that PyTorch lacks. All its decisions are here,
// because each of them would cost as much in Python as the whole call of a small problem.
#include "options.h"
#include <nanobind/stl/optional.h>

namespace attune_python {
namespace {

using attune::ConstView;
using attune::Context;
using attune::DType;

bool dense_last(const ConstView &v) { return v.extent[v.rank - 1] <= 1 || v.stride[v.rank - 1] == 1; }

// Whether the tensors are of one type and rank, with extents that need no broadcasting.
bool direct(const ConstView &q, const ConstView &k, const ConstView &v, bool grouped) {
    if (q.rank < 2 || q.rank > 4 || k.rank != q.rank || v.rank != q.rank || k.dtype != q.dtype || v.dtype != q.dtype)
        return false;
    if (!dense_last(q) || !dense_last(k) || !dense_last(v)) return false;
    const int last = q.rank - 1;
    if (k.extent[last] != q.extent[last] || v.extent[last - 1] != k.extent[last - 1]) return false;
    if (q.extent[last] < 1 || v.extent[last] < 1) return false;
    if (grouped && q.rank < 4) return false;
    if (q.rank > 2 && (k.extent[0] != q.extent[0] || v.extent[0] != q.extent[0])) return false;
    if (q.rank < 4) return true;
    const std::int64_t heads = q.extent[1], key_heads = k.extent[1];
    if (v.extent[1] != key_heads || key_heads < 1) return false;
    return heads == key_heads || key_heads == 1 || (grouped && heads % key_heads == 0);
}

// PyTorch's scaled_dot_product_attention of plain tensors: out, or (out, lse); None where the call needs more than that.
nb::object torch_attention(nb::handle query, nb::handle key, nb::handle value, nb::handle attn_mask, bool is_causal,
                           nb::handle scale, bool enable_gqa, bool with_lse) {
    Call call;
    call.takes_tensors_of_autograd = call.marks_negated = true;
    const ConstView q = call.input("query", query), k = call.input("key", key), v = call.input("value", value);
    if (!direct(q, k, v, enable_gqa)) return nb::none();
    attune::SdpaOptions options;
    if (given(scale)) options.scale = number_of("scale", scale);
    if (is_causal) options.causal = attune::Causal::top_left;
    if (given(attn_mask)) {
        const ConstView mask = call.input("attn_mask", attn_mask);
        if (is_causal || mask.rank > q.rank || !dense_last(mask)) return nb::none();
        if (mask.dtype != DType::boolean && mask.dtype != q.dtype) return nb::none();
        (mask.dtype == DType::boolean ? options.mask : options.bias) = mask;
    }
    if (call.negated) return nb::none();
    std::int64_t extents[attune::max_rank];
    std::copy(q.extent, q.extent + q.rank, extents);
    extents[q.rank - 1] = v.extent[q.rank - 1];
    const auto dims = [&] {
        switch (q.rank) {
        case 2: return attune::Dims{extents[0], extents[1]};
        case 3: return attune::Dims{extents[0], extents[1], extents[2]};
        default: return attune::Dims{extents[0], extents[1], extents[2], extents[3]};
        }
    }();
    nb::object result, lse;
    const attune::View out = call.make(query, q.dtype, dims, result, Layout::heads_in_rows);
    if (with_lse) options.lse = call.make(query, lse_type(q.dtype), lse_extents(q), lse);
    call.run([&](Context &c) { return attune::scaled_dot_product_attention(c, q, k, v, out, options); });
    return with_lse ? nb::make_tuple(result, lse) : result;
}

}  // namespace

void bind_torch(nb::module_ &m) {
    using namespace nb::literals;
    m.def("torch_attention", &torch_attention, "query"_a, "key"_a, "value"_a, "attn_mask"_a.none(), "is_causal"_a,
          "scale"_a.none(), "enable_gqa"_a, "with_lse"_a,
          nb::sig("def torch_attention(query: Any, key: Any, value: Any, attn_mask: Any | None, is_causal: bool, "
                  "scale: float | None, enable_gqa: bool, with_lse: bool) -> Any | None"),
          "PyTorch's scaled_dot_product_attention of plain tensors: out, or (out, lse); None where the call needs more\n"
          "than that.\n\nA part of attune.torch, which records gradients.");
}

}  // namespace attune_python
