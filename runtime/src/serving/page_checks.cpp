// SPDX-License-Identifier: MIT
#include "serving/page_checks.h"
#include "attention/sdpa_call.h"
#include "tensors/checks.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace attune {
namespace {

// (P, page, H, ...) as (P, H, page, width), the order of kernels.
View by_heads(const View &v) {
    View w = v;
    w.rank = 4;
    std::swap(w.extent[1], w.extent[2]), std::swap(w.stride[1], w.stride[2]);
    if (v.rank == 3) w.extent[3] = 1, w.stride[3] = 1;
    return w;
}

// Checks of rows, scales and minima alike.
Status check_pool(const std::string &name, const View &v, const View &rows, std::int64_t width, int rank) {
    if (v.rank != rank) {
        const std::string shape = rank == 3 ? "3 (P, page, Hkv)" : "4 (P, page, Hkv, width)";
        return invalid(name, "rank must be " + shape + ", got " + text(v.rank));
    }
    const char *const names[] = {"number of pages", "rows of a page", "number of heads"};
    for (int n = 0; n < 3; n++)
        if (Status s = check_extent(name, names[n], v.extent[n], "the rows of the pages", rows.extent[n]); !s.ok()) return s;
    if (rank == 4 && v.extent[3] != width)
        return invalid(name, "last extent must be " + text(width) + ", got " + text(v.extent[3]));
    if (Status s = check_memory(name, v); !s.ok()) return s;
    if (rank == 4)
        if (Status s = check_dense(name, v); !s.ok()) return s;
    if (v.extent[0] > 1 && v.extent[1] > 1 && v.stride[1] != 0 && v.stride[0] % v.stride[1] != 0)
        return invalid(name, "the stride of a page must be a multiple of that of a row, " + text(v.stride[1]) + ", got " +
                                 text(v.stride[0]));
    return {};
}

Status check_type(const std::string &name, const View &v, std::initializer_list<DType> types, const std::string &of) {
    std::string names;
    for (DType t : types) {
        if (v.dtype == t) return {};
        names += (names.empty() ? "" : " or ") + std::string(name_of(t));
    }
    return invalid(name, "type must be " + names + " for pages of " + of + ", got " + name_of(v.dtype));
}

Status check_static_scale(const std::string &name, const View &scale, const View &rows, bool on_device, ConstView &as2) {
    if (Status s = check_type(name, scale, {DType::f32}, "a scale of the caller's own"); !s.ok()) return s;
    if (Status s = check_memory(name, scale); !s.ok()) return s;
    as2 = scale;
    as2.rank = 2;
    if (scale.rank == 1) {
        if (scale.extent[0] != 1)
            return invalid(name, "must be (1), (Hkv, D) or (P, page, Hkv), got extents " + shape_of(scale));
        as2.stride[0] = as2.stride[1] = 0;
    } else {
        if (Status s = check_dense(name, scale); !s.ok()) return s;
        const ExtentMatch matches[] = {{name, "number of heads", scale.extent[0], "the rows of the pages", rows.extent[2]},
                                       {name, "last extent", scale.extent[1], "the rows of the pages", rows.extent[3]}};
        if (Status s = check_extents(matches); !s.ok()) return s;
    }
    for (std::int64_t h = 0; h < (on_device ? 0 : as2.extent[0]); h++)
        for (std::int64_t d = 0; d < (scale.rank == 1 ? 1 : as2.extent[1]); d++)
            if (const float x = static_cast<const float *>(scale.data)[h * as2.stride[0] + d * as2.stride[1]];
                !(x > 0) || !std::isfinite(x))
                return invalid(name, "entry (" + (scale.rank == 2 ? text(h) + ", " : "") + text(d) +
                                         ") must be more than 0 and finite, got " + text(static_cast<double>(x)));
    as2.extent[0] = rows.extent[2], as2.extent[1] = rows.extent[3];
    return {};
}

Status check_int8(const std::string &name, const Pages &p, bool on_device, PagesToWrite &w) {
    if (p.minimum.given()) return invalid(name + ".minimum", "is given, and pages of i8 have none");
    if (!p.scale.given()) return invalid(name + ".scale", "is not given, and pages of i8 need it");
    if (p.scale.rank == 1 || p.scale.rank == 2)
        return check_static_scale(name + ".scale", p.scale, p.rows, on_device, w.out.static_scale);
    if (Status s = check_type(name + ".scale", p.scale, {DType::f32, DType::f16}, "i8"); !s.ok()) return s;
    if (Status s = check_pool(name + ".scale", p.scale, p.rows, 1, 3); !s.ok()) return s;
    w.out.scale = by_heads(p.scale);
    return {};
}

Status check_int4(const std::string &name, const Pages &p, std::int64_t channels, PagesToWrite &w) {
    for (const auto &[member, v] : {std::pair(name + ".scale", &p.scale), {name + ".minimum", &p.minimum}}) {
        if (!v->given()) return invalid(member, "is not given, and pages of u8 need it");
        if (Status s = check_type(member, *v, {DType::f16}, "u8"); !s.ok()) return s;
        if (v->rank != 4) return invalid(member, "rank must be 4 (P, page, Hkv, G), got " + text(v->rank));
        const std::int64_t groups = v->extent[3], group = groups > 0 ? channels / groups : 0;
        if (groups < 1 || channels % groups != 0 || (group != 32 && group != 64 && group != channels))
            return invalid(member, "last extent is " + text(groups) + ": groups of the " + text(channels) +
                                       " channels must have 32, 64 or all of them");
        if (Status s = check_pool(member, *v, p.rows, groups, 4); !s.ok()) return s;
        w.out.group = group;
    }
    if (Status s = check_extent(name + ".minimum", "last extent", p.minimum.extent[3], name + ".scale", p.scale.extent[3]);
        !s.ok())
        return s;
    w.out.scale = by_heads(p.scale), w.out.minimum = by_heads(p.minimum);
    return {};
}

}  // namespace

Status check_page_size(std::string_view name, const ConstView &rows) {
    const std::int64_t page = rows.extent[1];
    if (page == 1 || (page >= keys_of_run && page % keys_of_run == 0)) return {};
    return invalid(name,
                   "rows of a page (second extent) must be 1 or a multiple of " + text(keys_of_run) + ", got " + text(page));
}

Status check_pages_to_write(const std::string &name, const Pages &p, std::string_view rows_name, const ConstView &x,
                            bool on_device, PagesToWrite &w) {
    const std::string of_rows = name + ".rows";
    const View &rows = p.rows;
    if (rows.rank != 4) return invalid(of_rows, "rank must be 4 (P, page, Hkv, D), got " + text(rows.rank));
    const std::int64_t channels = x.extent[3];
    const bool int8 = rows.dtype == DType::i8, int4 = rows.dtype == DType::u8;
    w.quantised = int8 || int4;
    if (!w.quantised) {
        if (rows.dtype != x.dtype)
            return invalid(of_rows, std::string("type must be that of ") + std::string(rows_name) + ", " + name_of(x.dtype) +
                                        ", or i8 or u8, got " + name_of(rows.dtype));
    } else if (x.dtype == DType::f64) {
        return invalid(of_rows,
                       std::string("type must be f64 where ") + std::string(rows_name) + " is f64, got " + name_of(rows.dtype));
    }
    if (int4 && channels % 2 != 0)
        return invalid(of_rows,
                       "pages of u8 need an even number of channels, and " + std::string(rows_name) + " has " + text(channels));
    if (Status s = check_page_size(of_rows, rows); !s.ok()) return s;
    if (Status s = check_extent(of_rows, "number of heads", rows.extent[2], rows_name, x.extent[1]); !s.ok()) return s;
    if (Status s = check_pool(of_rows, rows, rows, int4 ? channels / 2 : channels, 4); !s.ok()) return s;
    if (!w.quantised && (p.scale.given() || p.minimum.given()))
        return invalid(name + (p.scale.given() ? ".scale" : ".minimum"),
                       std::string("is given, and pages of ") + name_of(rows.dtype) + " have none");
    w.out.rows = by_heads(rows);
    if (int8)
        if (Status s = check_int8(name, p, on_device, w); !s.ok()) return s;
    if (int4)
        if (Status s = check_int4(name, p, channels, w); !s.ok()) return s;
    return {};
}

}  // namespace attune
