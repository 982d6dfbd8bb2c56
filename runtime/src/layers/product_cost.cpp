// SPDX-License-Identifier: MIT
#include "layers/product_cost.h"
#include "tensors/checks.h"
#include <algorithm>
#include <limits>

namespace attune {
namespace {

// Weights beyond a core's own cache come from a shared one, and beyond that from memory.
constexpr double own_cache_bytes = 1 << 20, shared_cache_bytes = 24 << 20;
constexpr std::int64_t first_cache_bytes = 40 << 10;  // of weights that stay in it beside the sums
constexpr std::int64_t vector_elements = 16;
constexpr std::int64_t columns_that_hide_latency = 32;  // of a rank-k update: accumulators for each cycle of a multiply-add
// Rows of weights so many bytes apart lie in the same set of a first cache, which has room for eight lines of them.
constexpr std::int64_t bytes_between_lines_of_a_set = 4096;

bool rows_share_sets(const ProductProblem &p) {
    const std::int64_t stride = p.weight_stride ? p.weight_stride : p.depth;
    return p.op == "linear" && stride * size_of(p.dtype) % bytes_between_lines_of_a_set == 0;
}

struct Counts {
    double entries, rows, columns, tiles, column_tiles, depth_blocks;  // rows and columns with those of padded tiles
};

Counts counts_of(const ProductProblem &p, const Runnable &v) {
    const std::int64_t step = v.rank_k_update ? vector_elements : v.tile_columns;
    const std::int64_t tiles = ceil_div(p.rows, v.tile_rows), columns = ceil_div(p.columns, step) * step;
    return {static_cast<double>(p.entries),
            static_cast<double>(tiles * v.tile_rows),
            static_cast<double>(v.rank_k_update ? std::max(columns, columns_that_hide_latency) : columns),
            static_cast<double>(tiles),
            static_cast<double>(ceil_div(p.columns, v.tile_columns)),
            static_cast<double>(ceil_div(p.depth, v.block))};
}

// Bytes of weights from beyond a cache: those of all entries once, and those of an entry again for each further reading.
double bytes_beyond(double cache_bytes, double entries, double entry_bytes, double readings) {
    return std::max(0.0, entries * entry_bytes - cache_bytes) +
           entries * (readings - 1) * std::max(0.0, entry_bytes - cache_bytes);
}

// Terms of a device, where a tile of results is a block of the grid: all of the padded tile is multiplied, its depth in turns.
CostTerms device_terms(const ProductProblem &p, const Runnable &v) {
    const Counts n = counts_of(p, v);
    const double tiles = n.entries * n.tiles * n.column_tiles, columns = n.column_tiles * static_cast<double>(v.tile_columns);
    const double depth = static_cast<double>(p.depth), size = static_cast<double>(size_of(p.dtype));
    return {1,
            n.depth_blocks,
            n.entries * n.rows * columns * depth,
            tiles,
            tiles * n.depth_blocks,
            tiles * depth * static_cast<double>(v.tile_columns) * size,
            tiles * depth * static_cast<double>(v.tile_rows) * size};
}

// Tasks of some rows of each panel of columns.
std::int64_t row_tasks_of(const ProductProblem &p, const Runnable &v, int threads) {
    if (threads == 1) return ceil_div(p.rows, std::max(v.task_rows, v.tile_rows));
    const ProductTiles tiles = product_tiles(*v.record, v.tile_rows, v.tile_columns, v.task_rows);
    return ceil_div(ceil_div(p.rows, v.tile_rows), tiles_of_task(p.entries, p.rows, p.columns, tiles, threads));
}

}  // namespace

CostTerms product_terms(const ProductProblem &p, const Runnable &v, int threads) {
    if (v.on_device) return device_terms(p, v);
    const Counts n = counts_of(p, v);
    const double depth = static_cast<double>(p.depth), weights = n.columns * depth;
    const double size = static_cast<double>(size_of(p.dtype)), bytes = static_cast<double>(p.columns) * depth * size;
    const auto beyond = [&](double cache_bytes, double readings) {
        return bytes_beyond(cache_bytes, n.entries, bytes, readings);
    };
    if (v.rank_k_update) {
        const double task_bytes = depth * std::min(n.columns, static_cast<double>(v.tile_columns)) * size;
        const double read = task_bytes > static_cast<double>(first_cache_bytes) ? n.entries * n.tiles * weights : 0;
        return {1,
                n.entries * n.tiles * n.column_tiles,
                n.entries * n.rows * weights,
                read,
                n.entries * n.rows * n.columns * n.depth_blocks,
                beyond(own_cache_bytes, n.tiles),
                beyond(shared_cache_bytes, n.tiles)};
    }
    const double row_tasks = static_cast<double>(row_tasks_of(p, v, threads));
    const double read = v.few_rows ? (rows_share_sets(p) ? n.tiles : 0) : row_tasks;
    return {1,
            n.entries * n.column_tiles * row_tasks,
            n.entries * n.rows * weights,
            n.entries * read * weights,
            n.entries * n.tiles * n.column_tiles * n.depth_blocks,
            beyond(own_cache_bytes, row_tasks),
            beyond(shared_cache_bytes, row_tasks)};
}

ProductTiles product_tiles(const VariantRecord &v, std::int64_t rows, std::int64_t columns, std::int64_t task_rows) {
    const bool packs_for_amx = v.schedule_id == Schedule::amx && !takes_full_tiles(v);
    return {rows, columns, task_rows, packs_for_amx ? 256 : 64};
}

std::int64_t tiles_of_task(std::int64_t entries, std::int64_t rows, std::int64_t columns, const ProductTiles &of, int threads) {
    constexpr std::int64_t tasks_of_a_thread = 4;
    if (threads == 1) return std::numeric_limits<std::int32_t>::max();
    const std::int64_t most = std::max(of.task_rows / of.rows, std::int64_t(1));
    const std::int64_t tiles = ceil_div(rows, of.rows), others = entries * ceil_div(columns, of.columns);
    const std::int64_t wanted = ceil_div(threads * tasks_of_a_thread, others);
    const std::int64_t at_least = std::min(ceil_div(of.rows_at_least, of.rows), most);
    const std::int64_t tasks = ceil_div(tiles, std::clamp(ceil_div(tiles, wanted), at_least, most));
    return ceil_div(tiles, tasks);
}

Sharing product_sharing(const ProductProblem &p, const Runnable &v) {
    constexpr double fork_ns = 1400;  // of two threads of a Zen 5
    if (threads_worth(p) == 1) return {};
    const std::int64_t row_tasks = v.rank_k_update ? ceil_div(p.rows, v.tile_rows) : row_tasks_of(p, v, 2);
    return sharing_of(static_cast<double>(p.entries * ceil_div(p.columns, v.tile_columns) * row_tasks), fork_ns);
}

}  // namespace attune
