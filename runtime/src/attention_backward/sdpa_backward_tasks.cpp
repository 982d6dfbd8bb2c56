// SPDX-License-Identifier: MIT
// Tasks of the gradients of a call, and the tiles that a task may leave out.
#include "attention_backward/sdpa_backward_call.h"
#include <algorithm>

namespace attune {
namespace {

// A band: query i of a batch entry sees at most keys [i + begin, i + end).
struct Ends {
    std::int64_t begin, end;
};
Ends ends_of(const SdpaCall &c, std::int64_t entry) {
    const auto of_entry = [&](const std::vector<std::int32_t> &x) {
        return x[x.size() == 1 ? 0 : static_cast<std::size_t>(entry)];
    };
    return {of_entry(c.band_begin), of_entry(c.band_end)};
}

// Tiles of `side` elements that hold [begin, end) of [0, extent): one tile where that range is empty, as kernels need one.
TileRange tiles_that_hold(std::int64_t begin, std::int64_t end, std::int64_t extent, std::int64_t side) {
    begin = std::clamp<std::int64_t>(begin, 0, extent - 1);
    end = std::clamp(end, begin + 1, extent);
    return {begin / side, ceil_div(end, side) - begin / side};
}

}  // namespace

TileRange keys_seen_by(const SdpaCall &c, const VariantRecord &v, std::int64_t entry, const TileRange &queries) {
    const auto [begin, end] = ends_of(c, entry);
    const std::int64_t first = queries.first * v.tile_q;
    const std::int64_t last = std::min(first + queries.count * v.tile_q, c.sizes.queries) - 1;
    return tiles_that_hold(first + begin, last + end, c.sizes.keys, v.kv_block);
}

TileRange queries_that_see(const SdpaCall &c, const VariantRecord &v, std::int64_t entry, const TileRange &keys) {
    const auto [begin, end] = ends_of(c, entry);
    const std::int64_t first = keys.first * v.kv_block;
    const std::int64_t last = std::min(first + keys.count * v.kv_block, c.sizes.keys) - 1;
    return tiles_that_hold(first - end + 1, last - begin + 1, c.sizes.queries, v.tile_q);
}

std::int64_t tiles_of_a_part(const SdpaCall &c, const VariantRecord &v) {
    constexpr std::int64_t tiles = 16;  // enough that a part reads few keys or queries beside its own tiles
    std::int64_t widest = 0;
    for (std::size_t n = 0; n < std::max(c.band_begin.size(), c.band_end.size()); n++) {
        const auto [begin, end] = ends_of(c, static_cast<std::int64_t>(n));
        widest = std::max(widest, end - begin);
    }
    const SdpaProblem &p = c.sizes;
    const bool few_keys = 4 * (widest + tiles * v.tile_q) <= p.keys,
               few_queries = 4 * (widest + tiles * v.kv_block) <= p.queries;
    return few_keys && few_queries ? tiles : std::max(ceil_div(p.queries, v.tile_q), ceil_div(p.keys, v.kv_block));
}

// Tasks of a call. One pass over all tiles of a key head gives all gradients with 5 products a tile, but is a single task.
// Tasks for the gradient of some queries, or of some keys, can be as many as wanted, but together take 7 products. Bits are the
// same. Additive scores spend nearly all time in tanh: twice a pair and channel in one pass, four times in two.
//
// A task by query or by key skips streamed tiles that a band hides, whose rows would be packed for nothing. One pass
// visits every tile, seen or not; where a window leaves a quarter of the tiles or fewer, it takes longer than the 7 products.
std::vector<TileTask> tasks_of(const BackwardCall &call, const BackwardChoice &choice, int threads) {
    const VariantRecord &variant = *choice.tiles.variant;
    const SdpaProblem &p = call.forward.sizes;
    const bool additive = call.forward.pair_weight.given();
    const bool query = call.query.given(), key = call.key.given() || call.value.given() || call.pair_weight.given();
    const bool bias = choice.bias_with_tiles;
    const std::int64_t together = additive ? 2 : 5, apart = additive ? 4 : 7;
    const std::int64_t group = p.query_heads / p.key_heads, entries = p.batch * p.key_heads;
    const std::int64_t query_tiles = ceil_div(p.queries, variant.tile_q);
    const std::int64_t key_tiles = ceil_div(p.keys, variant.kv_block);
    constexpr std::int64_t tasks_a_thread = 4;
    const std::int64_t rounds = ceil_div(entries, threads);
    const std::int64_t tiles_at_most = tiles_of_a_part(call.forward, variant);
    const bool windowed = !bias && !additive && tiles_at_most < std::max(query_tiles, key_tiles);
    const bool share = threads > 1 && rounds * threads * together > entries * (query && key ? apart : together) &&
                       entries < tasks_a_thread * threads;
    const bool split = share || windowed;
    const std::int64_t parts = share ? ceil_div(tasks_a_thread * threads, entries) : 1;
    auto each_part = [&](std::int64_t tiles, const auto &body) {
        const std::int64_t size = std::clamp<std::int64_t>(ceil_div(tiles, parts), 1, tiles_at_most);
        for (std::int64_t first = 0; first < tiles; first += size) body(first, std::min(size, tiles - first));
    };
    std::vector<TileTask> tasks;
    for (std::int64_t b = 0; b < p.batch; b++)
        for (std::int64_t h = 0; h < p.key_heads; h++) {
            const TileTask all{b, h, 0, group, 0, query_tiles, 0, key_tiles, query, key, bias};
            if (!split) {
                tasks.push_back(all);
                continue;
            }
            if (key || !query)
                each_part(key_tiles, [&](std::int64_t first, std::int64_t count) {
                    TileTask t = all;
                    t.query = false, t.first_key_tile = first, t.key_tiles = count;
                    if (!bias) {
                        const TileRange seen = queries_that_see(call.forward, variant, b, {first, count});
                        t.first_query_tile = seen.first, t.query_tiles = seen.count;
                    }
                    tasks.push_back(t);
                });
            for (std::int64_t head = 0; query && head < group; head++)
                each_part(query_tiles, [&](std::int64_t first, std::int64_t count) {
                    TileTask t = all;
                    t.key = false, t.bias = bias && !key, t.first_head = head, t.heads = 1, t.first_query_tile = first,
                    t.query_tiles = count;
                    if (!t.bias) {
                        const TileRange seen = keys_seen_by(call.forward, variant, b, {first, count});
                        t.first_key_tile = seen.first, t.key_tiles = seen.count;
                    }
                    tasks.push_back(t);
                });
        }
    return tasks;
}

}  // namespace attune
