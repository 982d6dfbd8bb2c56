// SPDX-License-Identifier: MIT
// Checks of the pools of a paged call, numbers or quantised, as rows of one tensor.
#include "serving/page_checks.h"
#include "serving/paged_call.h"

namespace attune {
namespace {

// Views (P, page, H, W) as rows.
Status check_rows_of_pages(std::string_view name, const ConstView &v, PagedRows &of) {
    if (Status s = check_memory(name, v); !s.ok()) return s;
    const std::int64_t pages = v.extent[0], page = v.extent[1], stride = v.stride[page == 1 ? 0 : 1];
    const std::int64_t of_page = pages <= 1 ? page : stride == 0 ? 0 : v.stride[0] / stride;
    if (of_page < 1 || (pages > 1 && of_page * stride != v.stride[0]))
        return unsupported(name, "the stride of a page is " + text(v.stride[0]) +
                                     ", which must be a positive multiple of that of a row, " + text(stride));
    const std::int64_t all = pages == 0 ? 0 : (pages - 1) * of_page + page;
    if (all > most_extent) return unsupported(name, "pages span " + text(all) + " rows, more than 2^31 - 1");
    of = {v, pages, page, of_page, v.extent[3], {}};
    of.rows.extent[0] = 1, of.rows.extent[1] = v.extent[2], of.rows.extent[2] = all;
    of.rows.stride[0] = 0, of.rows.stride[1] = v.stride[2], of.rows.stride[2] = stride;
    of.rows.capacity = -1;  // checked; of_page rows of each page exist, but for the last
    return {};
}

Status check_numbers(std::string_view name, const ConstPages &pages, DType type, PagedRows &of) {
    const ConstView &rows = pages.rows;
    if (pages.scale.given() || pages.minimum.given())
        return invalid(name, "scale or minimum given for pages of type " + std::string(name_of(rows.dtype)) +
                                 ", which are not quantised");
    if (rows.rank != 4) return invalid(name, "rank must be 4 (P, page, Hkv, D), got " + text(rows.rank));
    if (Status s = check_same_type(name, rows.dtype, "query", type); !s.ok()) return s;
    if (Status s = check_memory(name, rows); !s.ok()) return s;
    if (rows.extent[3] < 1) return invalid(name, "last extent must be at least 1, got " + text(rows.extent[3]));
    if (Status s = check_dense(name, rows); !s.ok()) return s;
    if (Status s = check_page_size(name, rows); !s.ok()) return s;
    return check_rows_of_pages(name, rows, of);
}

// Scales as those of rows, which lie as the rows of the pages do.
Status check_scales_of_pages(const std::string &name, const View &v, const PagedRows &rows, ConstView &scale) {
    if (!v.given()) return {};
    View by_rows = v;  // (P, H, page, G)
    std::swap(by_rows.extent[1], by_rows.extent[2]), std::swap(by_rows.stride[1], by_rows.stride[2]);
    PagedRows of;
    if (Status s = check_rows_of_pages(name, by_rows, of); !s.ok()) return s;
    scale = of.rows;
    if (of.of_page == rows.of_page) return {};
    return unsupported(name, "the stride of a page is that of " + text(of.of_page) + " rows, in the pages of " +
                                 text(rows.of_page) + "; both must be laid out alike");
}

// Keys of `channels`, or values, numbers or quantised.
Status check_pages(const std::string &name, const ConstPages &pages, DType type, std::string_view of_channels,
                   std::int64_t channels, bool on_device, PagedRows &of) {
    if (!is_quantised(pages.rows)) return check_numbers(name, pages, type, of);
    const std::int64_t heads = pages.rows.rank == 4 ? pages.rows.extent[2] : 0;
    const ConstView numbers = typed_view(pages.rows.data, type, {1, heads, 0, channels}, {0, 0, 0, 1});
    const Pages as_written{writable(pages.rows), writable(pages.scale), writable(pages.minimum)};
    PagesToWrite checked;
    if (Status s = check_pages_to_write(name, as_written, of_channels, numbers, on_device, checked); !s.ok()) return s;
    if (Status s = check_rows_of_pages(name + ".rows", pages.rows, of); !s.ok()) return s;
    of.channels = channels;
    of.scales.static_scale = checked.out.static_scale, of.scales.group = checked.out.group;
    if (Status s = check_scales_of_pages(name + ".scale", checked.out.scale, of, of.scales.scale); !s.ok()) return s;
    return check_scales_of_pages(name + ".minimum", checked.out.minimum, of, of.scales.minimum);
}

}  // namespace

Status check_pools(const ConstView &query, const ConstPages &keys, const ConstPages &values, const View &out, bool on_device,
                   PagedCall &p) {
    const DType type = query.dtype;
    if (Status s = check_pages("key_pages", keys, type, "query", query.extent[2], on_device, p.keys); !s.ok()) return s;
    if (Status s = check_pages("value_pages", values, type, "out", out.extent[2], on_device, p.values); !s.ok()) return s;
    const ExtentMatch matches[] = {
        {"value_pages", "number of pages", p.values.pages, "key_pages", p.keys.pages},
        {"value_pages", "rows of a page", p.values.page, "key_pages", p.keys.page},
        {"value_pages", "number of heads", p.values.rows.extent[1], "key_pages", p.keys.rows.extent[1]}};
    if (Status s = check_extents(matches); !s.ok()) return s;
    if (p.values.of_page == p.keys.of_page) return {};
    return unsupported("value_pages", "the stride of a page is that of " + text(p.values.of_page) + " rows, in key_pages of " +
                                          text(p.keys.of_page) + "; both must be laid out alike");
}

}  // namespace attune
