// SPDX-License-Identifier: MIT
#include "layers/linear_call.h"
#include <algorithm>

namespace attune {

Status check_rows(std::string_view name, const ConstView &v, std::string_view other, DType type_of_other) {
    if (Status s = check_real(name, v); !s.ok()) return s;
    if (!other.empty())
        if (Status s = check_same_type(name, v.dtype, other, type_of_other); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (v.extent[v.rank - 1] < 1) return invalid(name, "last extent must be at least 1, got " + text(v.extent[v.rank - 1]));
    return check_dense(name, v);
}

Status check_weight(std::string_view name, const ConstView &weight, std::string_view x_name, const ConstView &x) {
    if (weight.rank != 2) return invalid(name, "rank must be 2 (N, K), got " + text(weight.rank));
    if (Status s = check_rows(name, weight, x_name, x.dtype); !s.ok()) return s;
    if (weight.extent[0] < 1) return invalid(name, "first extent must be at least 1, got " + text(weight.extent[0]));
    return check_extent(name, "width (last extent)", weight.extent[1], x_name, x.extent[x.rank - 1]);
}

Status check_bias(std::string_view name, const ConstView &bias, std::string_view weight_name, const ConstView &weight) {
    if (!bias.given()) return {};
    if (bias.rank != 1) return invalid(name, "rank must be 1 (N), got " + text(bias.rank));
    if (Status s = check_rows(name, bias, weight_name, weight.dtype); !s.ok()) return s;
    return check_extent(name, "number of rows (first extent)", bias.extent[0], weight_name, weight.extent[0]);
}

Status check_packed_extents(std::string_view name, const ConstView &packed, std::int64_t columns, std::int64_t depth) {
    const std::array<std::int64_t, 3> e = packed_weight_extents(packed.dtype, columns, depth);
    if (std::equal(e.begin(), e.end(), packed.extent)) return {};
    return invalid(name, "shape is " + shape_of(packed) + ", a packed weight of " + text(columns) + " columns and depth " +
                             text(depth) + " has " +
                             shape_of(ConstView(static_cast<const float *>(nullptr), {e[0], e[1], e[2]})) + " in " +
                             name_of(packed.dtype));
}

bool is_one_matrix(const ConstView &packed) {
    return packed.extent[0] == 1 || packed.stride[0] == packed.extent[1] * packed.stride[1];
}

ConstView as_one_matrix(ConstView packed) {
    packed.rank = 2;
    packed.extent[0] *= packed.extent[1], packed.extent[1] = packed.extent[2];
    packed.stride[0] = packed.stride[1], packed.stride[1] = packed.stride[2];
    return packed;
}

Status check_leading(const ConstView &v, std::string_view name, const ConstView &x, std::string_view x_name, int count) {
    for (int n = 0; n < count; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], x_name, x.extent[n]); !s.ok()) return s;
    return {};
}

Status check_rank(std::string_view name, int given, std::string_view other, int expected) {
    if (given == expected) return {};
    return invalid(name, "rank is " + text(given) + ", that of " + std::string(other) + " is " + text(expected));
}

}  // namespace attune
