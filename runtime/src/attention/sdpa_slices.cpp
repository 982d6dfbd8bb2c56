// SPDX-License-Identifier: MIT
// Parts of a call: batch entries, key heads, queries.
#include "attention/dropout_threshold.h"
#include "attention/sdpa_call.h"
#include <algorithm>

namespace attune {

std::array<NamedView, 7> places_of(const SdpaCall &c) {
    return {{{"query", c.query},
             {"key", c.key},
             {"value", c.value},
             {"out", c.out},
             {"lse", c.lse},
             {"bias", c.bias},
             {"mask", c.mask}}};
}

bool has_32_bit_places(const SdpaCall &c) {
    const auto all = places_of(c);
    return std::all_of(all.begin(), all.end(), [](const NamedView &v) { return has_32_bit_places(v.view); });
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
    part.first_head += static_cast<std::uint32_t>(begin) * counted_heads(call.dropout, call.sizes.query_heads);
    return part;
}

SdpaCall slice_key_heads(const SdpaCall &call, std::int64_t begin, std::int64_t end) {
    SdpaCall part = call;
    const std::int64_t group = call.sizes.query_heads / call.sizes.key_heads, first = begin * group,
                       heads = (end - begin) * group;
    auto cut = [](auto &view, int dimension, std::int64_t from, std::int64_t extent) {
        if (view.given()) view = part_of(view, dimension, from, extent);
    };
    cut(part.key, 1, begin, end - begin), cut(part.value, 1, begin, end - begin);
    for (RowScales *s : {&part.key_scales, &part.value_scales}) {
        cut(s->scale, 1, begin, end - begin), cut(s->minimum, 1, begin, end - begin);
        cut(s->static_scale, 0, begin, end - begin);
    }
    cut(part.query, 1, first, heads), cut(part.out, 1, first, heads), cut(part.lse, 1, first, heads);
    cut(part.bias, 1, first, heads), cut(part.mask, 1, first, heads);
    cut(part.slopes, 1, first, heads), cut(part.sinks, 0, first, heads);
    part.sizes.query_heads = heads, part.sizes.key_heads = end - begin;
    part.first_head += static_cast<std::uint32_t>(first);
    part.dropout.heads = counted_heads(call.dropout, call.sizes.query_heads);
    return part;
}

void shift_bands(SdpaCall &part, std::int64_t by) {
    const auto shift = [&](std::vector<std::int32_t> &all, std::int64_t least, std::int64_t most) {
        for (std::int32_t &x : all) x = static_cast<std::int32_t>(std::clamp(x + by, least, most));
    };
    shift(part.band_begin, -part.sizes.queries, part.sizes.keys), shift(part.band_end, -part.sizes.queries, part.sizes.keys);
    shift(part.offset, -most_extent, most_extent);
}

SdpaCall slice_queries(const SdpaCall &call, std::int64_t begin, std::int64_t end) {
    SdpaCall part = call;
    auto cut = [&](auto &view, int dimension) {
        if (view.given()) view = part_of(view, dimension, begin, end - begin);
    };
    cut(part.query, 2), cut(part.out, 2), cut(part.lse, 2), cut(part.lengths, 1), cut(part.bias, 2), cut(part.mask, 2);
    part.sizes.queries = end - begin;
    shift_bands(part, begin);
    return part;
}

}  // namespace attune
