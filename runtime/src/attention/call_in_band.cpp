// SPDX-License-Identifier: MIT
#include "attention/call_in_band.h"
#include <algorithm>
#include <numeric>

namespace attune {
namespace {

struct KeyRange {
    std::int64_t begin, end;
};

// At least one KV block, where queries see no key at all.
KeyRange keys_in_band(const SdpaCall &c, std::int64_t kv_block) {
    const std::int64_t keys = c.sizes.keys;
    const std::int64_t first = *std::min_element(c.band_begin.begin(), c.band_begin.end()),
                       last = c.sizes.queries - 1 + *std::max_element(c.band_end.begin(), c.band_end.end());
    const std::int64_t begin = std::clamp<std::int64_t>(first, 0, keys - 1) / kv_block * kv_block;
    return {begin, std::min(ceil_div(std::max(last, begin + 1), kv_block) * kv_block, keys)};
}

// A copy of int32 (B, N) from column `first` on, of `columns`, each changed by f; a stride of 0 along N stays one.
template<typename F>
ConstView changed(const ConstView &v, std::int64_t first, std::int64_t columns, std::vector<std::int32_t> &memory, const F &f) {
    const std::int64_t kept = v.stride[1] == 0 ? 1 : columns;
    memory.resize(static_cast<std::size_t>(v.extent[0] * kept));
    const auto *from = static_cast<const std::int32_t *>(v.data);
    for (std::int64_t b = 0; b < v.extent[0]; b++)
        for (std::int64_t n = 0; n < kept; n++)
            memory[static_cast<std::size_t>(b * kept + n)] = f(from[b * v.stride[0] + (first + n) * v.stride[1]]);
    return {memory.data(), {v.extent[0], columns}, {kept, v.stride[1] == 0 ? 0 : 1}};
}

// Without lengths and shifts of rows.
SdpaCall slice_keys(const SdpaCall &call, const KeyRange &range) {
    SdpaCall part = call;
    const std::int64_t keys = range.end - range.begin;
    part.sizes.keys = keys;
    const auto cut = [&](ConstView &v, int dimension) {
        if (v.given() && v.extent[dimension] > 1) v = part_of(v, dimension, range.begin, keys);
    };
    if (!call.row_shift.given()) {
        cut(part.key, 2), cut(part.value, 2);
        for (RowScales *s : {&part.key_scales, &part.value_scales}) cut(s->scale, 2), cut(s->minimum, 2);
    }
    for (ConstView *table : {&part.bias, &part.mask}) {
        cut(*table, 3);
        if (table->given() && table->extent[3] == keys) table->stride[3] = 1;
    }
    shift_bands(part, -range.begin);
    part.dropout.first_key += static_cast<std::uint32_t>(range.begin);
    return part;
}

}  // namespace

CallInBand::CallInBand(const SdpaCall &call, std::int64_t kv_block) : whole_(call) {
    if (call.user || kv_block == 1) return;  // schedules without KV blocks of their own have 1
    const KeyRange range = keys_in_band(call, call.row_shift.given() ? std::lcm(kv_block, keys_of_run) : kv_block);
    if (range.begin == 0 && range.end == call.sizes.keys) return;
    SdpaCall &part = part_.emplace(slice_keys(call, range));
    const std::int64_t keys = part.sizes.keys;
    if (call.lengths.given())
        part.lengths = changed(call.lengths, 0, call.sizes.queries, lengths_, [&](std::int32_t length) {
            return static_cast<std::int32_t>(std::clamp<std::int64_t>(length - range.begin, 0, keys));
        });
    if (call.row_shift.given())
        part.row_shift = changed(call.row_shift, range.begin / keys_of_run, ceil_div(keys, keys_of_run), row_shift_,
                                 [&](std::int32_t shift) { return static_cast<std::int32_t>(shift + range.begin); });
}

}  // namespace attune
