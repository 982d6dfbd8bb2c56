// SPDX-License-Identifier: MIT
#include "attention/attention_cost.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {

// Keys and values beyond a core's own cache come from a shared one, and beyond that from memory.
constexpr double own_cache_bytes = 1 << 20, shared_cache_bytes = 24 << 20;
constexpr std::int64_t vector_elements = 16;  // in which kernels step through channels

// Bytes of the keys and values of a head; in double, for a view that broadcasts may have any number of them.
double bytes_of_head(const SdpaProblem &p, std::int64_t keys) {
    return static_cast<double>(keys) * static_cast<double>((p.head_dim + p.value_dim) * size_of(p.dtype));
}

double in_vectors(std::int64_t channels) { return static_cast<double>(ceil_div(channels, vector_elements) * vector_elements); }
double width_of(const SdpaProblem &p) { return in_vectors(p.head_dim) + in_vectors(p.value_dim); }

// Sums over the tiles of queries of one head: the keys that a tile looks at, their KV blocks, and the tiles that have any.
struct KeysOfTiles {
    double keys = 0, blocks = 0, tiles = 0;
};

// A causal tile sees the keys up to that of its last query: keys - queries more than the queries up to it. A tile of folded
// groups may hold a part of a query's heads.
KeysOfTiles causal_keys(const SdpaProblem &p, double tile, std::int64_t tiles, std::int64_t block) {
    const double before = static_cast<double>(p.keys - p.queries), all_tiles = static_cast<double>(tiles);
    // Tiles [first, tiles - 1) are full and see keys.
    const double first = before + tile > 0 ? 0 : std::min(std::floor(-before / tile), all_tiles - 1),
                 full = all_tiles - 1 - first;
    const double sum = full * before + tile * full * (first + all_tiles) / 2;
    KeysOfTiles all;
    all.keys = std::max(sum, 0.0) + static_cast<double>(p.keys);
    // On average a tile ends in the middle of a KV block.
    const double size = static_cast<double>(block);
    all.blocks = std::max(0.0, sum / size + full / 2 * (1 - 1 / size)) + static_cast<double>(ceil_div(p.keys, block));
    all.tiles = full + 1;
    return all;
}

// Keys that so many queries in a row may look at, whose windows lie beside one another.
std::int64_t keys_of_queries(const SdpaProblem &p, std::int64_t queries) {
    return p.window_keys > 0 ? std::min(p.keys, p.window_keys + std::min(queries, p.queries) - 1) : p.keys;
}

KeysOfTiles keys_of_tiles(const SdpaProblem &p, double tile, std::int64_t tiles, std::int64_t block) {
    if (p.causal && p.window_keys == 0) return causal_keys(p, tile, tiles, block);
    const std::int64_t keys = keys_of_queries(p, static_cast<std::int64_t>(std::ceil(tile)));
    const double all = static_cast<double>(tiles);
    return {all * static_cast<double>(keys), all * static_cast<double>(ceil_div(keys, block)), all};
}

// Tiles of queries: of each query head or, where groups are folded, of each key head.
struct QueryTiles {
    std::int64_t heads, count;  // tiles of a head
    double queries;             // of a tile: where groups are folded, a row is a part of a query

    QueryTiles(const SdpaProblem &p, const Runnable &v) {
        const std::int64_t rows_of_query = folds_groups(p, *v.record) ? p.query_heads / p.key_heads : 1;
        heads = p.query_heads / rows_of_query, count = ceil_div(p.queries * rows_of_query, v.tile_rows);
        queries = static_cast<double>(v.tile_rows) / static_cast<double>(rows_of_query);
    }
    double all() const { return static_cast<double>(heads * count); }
};

CostTerms terms_of_tiles(const SdpaProblem &p, const Runnable &v) {
    const QueryTiles tiles(p, v);
    const double heads = static_cast<double>(tiles.heads), width = width_of(p), tile = static_cast<double>(v.tile_rows);
    const KeysOfTiles seen = keys_of_tiles(p, tiles.queries, tiles.count, v.block);
    const double of_heads = tiles.all(), scores = heads * seen.keys * tile;
    double tasks = of_heads;
    if (v.record->schedule_id == Schedule::amx)  // copies of the keys and values that a call looks at
        tasks = static_cast<double>(p.key_heads) * static_cast<double>(keys_of_queries(p, p.queries)) * width;
    // A tile finds in a core's own cache the keys and values that the tile before it has left.
    const double beyond = of_heads * std::max(bytes_of_head(p, keys_of_queries(p, v.tile_rows)) - own_cache_bytes / 2, 0.0);
    return {1, tasks, heads * seen.tiles * width, scores, scores * width, heads * seen.blocks * width, beyond};
}

CostTerms terms_of_blocks(const SdpaProblem &p, const Runnable &v) {
    const double key_heads = static_cast<double>(p.key_heads), width = width_of(p);
    const std::int64_t rows = rows_of_key_head(p), tiles = ceil_div(rows, v.tile_rows);
    const std::int64_t keys = keys_of_queries(p, p.queries);
    const double bytes = key_heads * bytes_of_head(p, keys);
    const double of_heads = key_heads * static_cast<double>(tiles),
                 computed = static_cast<double>(ceil_div(keys, v.key_step) * v.key_step),
                 scores = of_heads * static_cast<double>(v.tile_rows) * computed;
    return {1,
            of_heads * static_cast<double>(ceil_div(keys, v.block)),
            key_heads * static_cast<double>(rows) * width,
            scores,
            scores * width,
            static_cast<double>(tiles) * std::max(bytes - own_cache_bytes, 0.0),
            static_cast<double>(tiles) * std::max(bytes - shared_cache_bytes, 0.0)};
}

CostTerms device_terms(const SdpaProblem &p, const Runnable &v) {
    const double width = 2 * static_cast<double>(v.channels), entries = static_cast<double>(p.batch);
    double blocks = 0, of_blocks = 0, longest = 0, parts = 0;
    if (v.split_keys > 0) {
        const double key_heads = entries * static_cast<double>(p.key_heads);
        const std::int64_t rows = rows_of_key_head(p), splits = ceil_div(p.keys, v.split_keys);
        const double tiles = key_heads * static_cast<double>(ceil_div(rows, v.tile_rows));
        longest = static_cast<double>(ceil_div(std::min(p.keys, v.split_keys), v.block));
        blocks = tiles * static_cast<double>(splits), of_blocks = tiles * static_cast<double>(ceil_div(p.keys, v.block));
        parts = key_heads * static_cast<double>(rows * splits * v.channels);
    } else {
        const std::int64_t tiles = ceil_div(p.queries, v.tile_rows);
        const double heads = entries * static_cast<double>(p.query_heads);
        const auto tile = static_cast<double>(v.tile_rows);
        longest = keys_of_tiles(p, tile, 1, v.block).blocks;
        blocks = heads * static_cast<double>(tiles), of_blocks = heads * keys_of_tiles(p, tile, tiles, v.block).blocks;
    }
    const double bytes = entries * static_cast<double>(p.key_heads) * bytes_of_head(p, p.keys);
    return {1, longest * width, blocks * width, of_blocks, of_blocks * width, bytes, parts};
}

}  // namespace

bool folds_groups(const SdpaProblem &p, const VariantRecord &v) {
    const bool in_window = p.window_keys > 0 && p.window_keys < p.keys;
    if (!is_prefill(v) || is_of_user(v) || p.scored || p.dropout || in_window) return false;
    if (p.query_heads <= p.key_heads) return false;
    const std::int64_t tiles = p.query_heads / p.key_heads * ceil_div(p.queries, std::int64_t(v.tile_q)),
                       folded = ceil_div(rows_of_key_head(p), std::int64_t(v.tile_q));
    return 4 * folded <= 3 * tiles;
}

CostTerms attention_terms(const SdpaProblem &p, const Runnable &v) {
    if (v.on_device) return device_terms(p, v);
    return is_prefill(*v.record) ? terms_of_tiles(p, v) : terms_of_blocks(p, v);
}

Sharing attention_sharing(const SdpaProblem &p, const Runnable &v) {
    // Nanoseconds that parallel loops take to begin and to end, on two threads of a Zen 5: one of tiles, two of decode, three
    // of split; and the factors by which merges of decode and split take longer than half of one thread's time.
    constexpr double tiles_ns = 2000, decode_ns = 3000, split_ns = 6000, decode_more = 1.06, split_more = 1.1;
    const double heads = static_cast<double>(p.key_heads), keys = static_cast<double>(p.keys);
    if (work_of(p) < work_of_two_threads) return {};
    if (is_prefill(*v.record)) return sharing_of(QueryTiles(p, v).all(), tiles_ns);
    const double blocks = heads * static_cast<double>(ceil_div(p.keys, v.block));
    if (blocks <= 1) return {2, 0};
    // The last KV block is shorter than the others: no thread computes more than half, if half is a block at least.
    const double share = std::max(1.0, 2 * static_cast<double>(std::min(v.block, p.keys)) / (heads * keys));
    return v.record->schedule_id == Schedule::decode ? Sharing{share * decode_more, decode_ns}
                                                     : Sharing{share * split_more, split_ns};
}

}  // namespace attune
