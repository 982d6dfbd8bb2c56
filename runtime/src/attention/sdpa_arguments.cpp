// SPDX-License-Identifier: MIT
#include "attention/sdpa_arguments.h"
#include "execution/float_state.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace attune {
namespace {

struct Expanded {
    std::int64_t extent[3];
    std::int64_t bytes = 0;
};
Expanded expansion_of(const ConstView &v, std::int64_t keys) {
    Expanded e{{1, 1, 1}};
    if (!v.given() || v.extent[3] == keys) return e;
    std::int64_t rows = 1;
    for (int n = 0; n < 3; n++) rows *= e.extent[n] = v.stride[n] == 0 ? 1 : v.extent[n];
    e.bytes = (rows * keys * size_of(v.dtype) + 63) / 64 * 64;
    return e;
}
}  // namespace

LengthBounds bound_lengths(const ConstView &lens, const SdpaProblem &sizes, std::int64_t tile, std::int32_t *storage) {
    const std::int64_t queries = sizes.queries, batch = sizes.batch;
    LengthBounds bounds{lens, lens};
    const std::int64_t tiles = ceil_div(queries, tile);
    const bool per_query = lens.stride[1] != 0 && queries > 1;
    if (per_query) {
        const auto *data = static_cast<const std::int32_t *>(lens.data);
        std::int32_t *shortest = storage, *longest = storage + batch * tiles;
        for (std::int64_t b = 0; b < batch; b++)
            for (std::int64_t i = 0; i < queries; i++) {
                const std::int32_t n = data[b * lens.stride[0] + i * lens.stride[1]];
                std::int32_t &low = shortest[b * tiles + i / tile], &high = longest[b * tiles + i / tile];
                low = i % tile ? std::min(low, n) : n;
                high = i % tile ? std::max(high, n) : n;
            }
        bounds = {ConstView(shortest, {batch, tiles}), ConstView(longest, {batch, tiles})};
    }
    if (!per_query || tiles == 1)
        for (ConstView *v : {&bounds.shortest, &bounds.longest}) {
            v->extent[1] = sizes.query_heads * queries;  // at least the number of tiles of any schedule
            v->stride[1] = 0;
        }
    return bounds;
}

std::int64_t bytes_of_bounds(const SdpaProblem &p) {
    return 2 * static_cast<std::int64_t>(sizeof(std::int32_t)) * p.batch * p.queries;
}

std::int64_t bytes_of_expansion(const ConstView &v, std::int64_t keys) { return expansion_of(v, keys).bytes; }

ConstView dense_along_keys(const ConstView &v, std::int64_t keys, char *copy) {
    const Expanded e = expansion_of(v, keys);
    if (e.bytes == 0) return v;
    ConstView d = v;
    const auto size = static_cast<std::size_t>(size_of(v.dtype));
    move_to(d, copy);
    d.extent[3] = keys, d.stride[3] = 1;
    std::int64_t dense = keys;
    for (int n = 2; n >= 0; n--) {
        d.stride[n] = v.stride[n] == 0 ? 0 : dense;
        dense *= e.extent[n];
    }
    for (std::int64_t b = 0; b < e.extent[0]; b++)
        for (std::int64_t h = 0; h < e.extent[1]; h++)
            for (std::int64_t i = 0; i < e.extent[2]; i++) {
                const char *from = static_cast<const char *>(v.data) +
                                   (b * v.stride[0] + h * v.stride[1] + i * v.stride[2]) * size_of(v.dtype);
                for (std::int64_t j = 0; j < keys; j++, copy += size) std::memcpy(copy, from, size);
            }
    return d;
}

std::vector<float> alibi_slopes(std::int64_t heads) {
    const DefaultFloatState of_this_call;
    std::vector<float> slopes;
    std::int64_t n = 1;
    while (n <= heads / 2) n *= 2;
    for (std::int64_t h = 0; h < heads; h++) {
        const double power = h < n ? -8.0 * static_cast<double>(h + 1) : -4.0 * static_cast<double>(2 * (h - n) + 1);
        slopes.push_back(static_cast<float>(std::exp2(power / static_cast<double>(n))));
    }
    return slopes;
}

}  // namespace attune
