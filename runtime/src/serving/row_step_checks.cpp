// SPDX-License-Identifier: MIT
#include "serving/row_steps.h"
#include "tensors/checks.h"
#include <bit>
#include <cmath>

namespace attune {
namespace {

constexpr std::int64_t least_block = 8;  // of a Hadamard rotation

Status check_norm(const std::string &prefix, const RowSteps &steps, const ConstView &x, StepsOfRows &s) {
    const std::string name = prefix + "norm_weight";
    ConstView w = steps.norm_weight;
    if (w.rank != 1 && w.rank != 2) return invalid(name, "rank must be 1 (D) or 2 (H, D), got " + text(w.rank));
    if (w.dtype != DType::f32 && w.dtype != x.dtype)
        return invalid(name,
                       std::string("type must be f32 or that of the rows, ") + name_of(x.dtype) + ", got " + name_of(w.dtype));
    if (Status status = check_memory(name, w); !status.ok()) return status;
    if (Status status = check_dense(name, w); !status.ok()) return status;
    if (w.rank == 2)
        if (Status status = check_extent(name, "number of heads", w.extent[0], "the rows", x.extent[1]); !status.ok())
            return status;
    if (Status status = check_extent(name, "last extent", w.extent[w.rank - 1], "the rows", x.extent[3]); !status.ok())
        return status;
    if (Status status = check_number(prefix + "norm_eps", steps.norm_eps, x.dtype); !status.ok()) return status;
    if (steps.norm_eps < 0) return invalid(prefix + "norm_eps", "must not be negative, got " + text(steps.norm_eps));
    if (w.rank == 1) {
        w.rank = 2;
        w.extent[1] = w.extent[0], w.stride[1] = w.stride[0];
        w.extent[0] = x.extent[1], w.stride[0] = 0;
    }
    s.norm_weight = w, s.norm_eps = steps.norm_eps;
    return {};
}

Status check_tables(const std::string &prefix, const Rope &rope, std::int64_t pairs) {
    for (const auto &[name, table] : {std::pair(prefix + "rope.cos", &rope.cos), {prefix + "rope.sin", &rope.sin}}) {
        if (!table->given()) return invalid(name, "is not given, and the other table is");
        if (table->rank != 2) return invalid(name, "rank must be 2 (positions, dim / 2), got " + text(table->rank));
        if (table->dtype != DType::f32) return invalid(name, std::string("type must be f32, got ") + name_of(table->dtype));
        if (Status s = check_memory(name, *table); !s.ok()) return s;
        if (table->extent[1] != pairs)
            return invalid(name, "last extent must be " + text(pairs) + ", half of rope.dim, got " + text(table->extent[1]));
        if (Status s = check_dense(name, *table); !s.ok()) return s;
    }
    if (rope.scaling != 1)
        return invalid(prefix + "rope.scaling", "is given beside tables, which hold it; got " + text(rope.scaling));
    return check_extent(prefix + "rope.sin", "number of positions", rope.sin.extent[0], prefix + "rope.cos",
                        rope.cos.extent[0]);
}

Status check_rope(const std::string &prefix, const Rope &rope, const ConstView &x, StepsOfRows &s) {
    const std::string name = prefix + "rope.";
    if (!rope.given()) {
        if (rope.dim != 0 || rope.offset != 0 || rope.scaling != 1)
            return invalid(name + (rope.dim != 0      ? "dim"
                                   : rope.offset != 0 ? "offset"
                                                      : "scaling"),
                           "is given without tables and base");
        return {};
    }
    const bool tables = rope.cos.given() || rope.sin.given();
    if (tables && rope.base != 0) return invalid(name + "base", "is given beside tables, got " + text(rope.base));
    if (rope.pairs != RopePairs::halves && rope.pairs != RopePairs::interleaved)
        return invalid(name + "pairs", "must be 0 or 1, got " + text(static_cast<int>(rope.pairs)));
    const std::int64_t channels = x.extent[3], dim = rope.dim == 0 ? channels : rope.dim;
    if (dim < 0 || dim % 2 != 0)
        return invalid(name + "dim", "must be even and not negative, got " + text(rope.dim) +
                                         (rope.dim == 0 ? " (all " + text(channels) + " channels)" : ""));
    if (rope.offset < 0) return invalid(name + "offset", "must not be negative, got " + text(rope.offset));
    if (rope.offset > channels - dim)
        return invalid(name + "offset", "is " + text(rope.offset) + ", and " + text(dim) + " channels from there exceed the " +
                                            text(channels) + " of a row");
    if (Status status = tables ? check_tables(prefix, rope, dim / 2) : check_rope_base(name, rope.base, rope.scaling);
        !status.ok())
        return status;
    s.rope = rope;
    (rope.pairs == RopePairs::halves ? s.halves : s.neighbours) = dim / 2;
    return {};
}

}  // namespace

Status check_rope_base(const std::string &prefix, double base, double scaling) {
    if (!std::isfinite(base) || base <= 1) return invalid(prefix + "base", "must be more than 1, got " + text(base));
    if (std::isfinite(scaling) && scaling > 0) return {};
    return invalid(prefix + "scaling", "must be more than 0, got " + text(scaling));
}

Status check_hadamard(const std::string &name, const ConstView &x, StepsOfRows &s) {
    const std::int64_t block = x.extent[3] & -x.extent[3];
    if (block < least_block)
        return invalid(name, "needs rows of a multiple of " + text(least_block) + " channels, got " + text(x.extent[3]));
    s.butterflies = std::countr_zero(static_cast<std::uint64_t>(block));
    return {};
}

Status check_steps(const std::string &prefix, const RowSteps &steps, const ConstView &x, StepsOfRows &s) {
    if (steps.norm_weight.given())
        if (Status status = check_norm(prefix, steps, x, s); !status.ok()) return status;
    if (Status status = check_rope(prefix, steps.rope, x, s); !status.ok()) return status;
    return steps.hadamard ? check_hadamard(prefix + "hadamard", x, s) : Status();
}

Status check_positions(std::string_view name, ConstView p, std::string_view shape, const ConstView &x, bool on_device,
                       StepsOfRows &s) {
    const bool rotates = s.halves + s.neighbours > 0;
    if (!p.given()) return rotates ? invalid(name, "is not given, and RoPE needs it") : Status();
    const int rank = shape == "(T)" ? 1 : 2;
    if (p.rank != rank) return invalid(name, "rank must be " + text(rank) + " " + std::string(shape) + ", got " + text(p.rank));
    if (Status status = check_ints(name, p); !status.ok()) return status;
    if (rank == 1) {
        p.rank = 2;
        p.extent[1] = p.extent[0], p.stride[1] = p.stride[0];
        p.extent[0] = 1, p.stride[0] = 0;
    }
    if (Status status = check_extent(name, "batch (first extent)", p.extent[0], "the rows", x.extent[0]); !status.ok())
        return status;
    if (Status status = check_extent(name, "number of rows", p.extent[1], "the rows", x.extent[2]); !status.ok()) return status;
    if (!rotates) return {};
    const std::int64_t end = s.rope.cos.given() ? s.rope.cos.extent[0] : std::int64_t(1) << 31;
    for (std::int64_t b = 0; b < (on_device ? 0 : p.extent[0]); b++)
        for (std::int64_t t = 0; t < p.extent[1]; t++) {
            const std::int64_t at = static_cast<const std::int32_t *>(p.data)[b * p.stride[0] + t * p.stride[1]];
            if (at >= 0 && at < end) continue;
            return invalid(name,
                           "entry (" + (rank == 2 ? text(b) + ", " : "") + text(t) + ") is " + text(at) +
                               (at < 0 ? ", must not be negative" : ", the tables of RoPE have " + text(end) + " positions"));
        }
    s.positions = p;
    return {};
}

}  // namespace attune
