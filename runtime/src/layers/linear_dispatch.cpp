// SPDX-License-Identifier: MIT
#include "layers/linear_call.h"
#include <array>
#include <string>
#include <vector>

namespace attune {
namespace {

constexpr std::int64_t wide_bytes = 256;  // of sums, in a row of the tiles of class many_rows

std::int64_t wide_columns(const Product &p) { return wide_bytes / size_of(sum_type(p.x.dtype)); }
bool packed(const Product &p) { return p.weight.rank == packed_rank; }

constexpr std::int64_t amx_tile_depth = 32, amx_tile_columns = 32;  // of schedule amx_gemv

// Whether its weights can be read as they lie.
bool fills_amx_tiles(const Product &p) { return p.depth % amx_tile_depth == 0 && p.columns >= amx_tile_columns; }

// Variants of linear by few rows read weights in whole blocks, of a cache line at most, or a pair for each accumulator; other
// weights lie as their sums read them.
constexpr std::int64_t block_depth = 32;
bool is_of_few_rows(const VariantRecord &v) {
    return parameter_of(v, "tile_rows", 0) == 1 || parameter_of(v, "few_rows", 0) == 1;
}
bool has_blocks(const Product &p) { return p.op.id == OpId::linear; }
// Rows of weights so many bytes apart lie in the same set of a first cache, which has room for eight lines of them.
constexpr std::int64_t bytes_between_lines_of_a_set = 4096;
bool rows_share_sets(const Product &p) {
    return has_blocks(p) && p.weight.stride[p.weight.rank - 2] * size_of(p.weight.dtype) % bytes_between_lines_of_a_set == 0;
}
// Weights of so many bytes stay in no last cache of a few cores, and in none of a core's own. Up to 48 MiB, a last cache may
// have the larger part of them in one process and less in the next, by where their pages are.
constexpr std::int64_t bytes_beyond_caches = 32 << 20, bytes_beyond_own_caches = 8 << 20, bytes_beyond_llc = 48 << 20;
bool has_bytes(const Product &p, std::int64_t bytes) {
    return has_blocks(p) && p.columns * p.depth * size_of(p.weight.dtype) >= bytes;
}
bool beyond_caches(const Product &p) { return has_bytes(p, bytes_beyond_caches); }
// Many rows for whose sums weights are prefetched: so many take longer than their weights take to come, and in bf16, summed in
// pairs, those that another cache has are there soon enough.
bool suits_many_rows_mem(const Product &p, bool depth_in_cache) {
    constexpr std::int64_t rows_beyond_memory = 256;
    if (depth_in_cache && p.x.extent[2] >= rows_beyond_memory) return false;
    return has_bytes(p, p.x.dtype == DType::bf16 ? bytes_beyond_caches : bytes_beyond_own_caches);
}
// The last product of an odd depth, of which there is no pair, comes after all others: where a tile of class depth_in_cache has
// left already.
bool lacks_pair(const Product &p, std::string_view schedule) { return schedule == "bf16_dot" && p.depth % 2 == 1; }
bool suits_row(const Product &p) { return p.x.extent[2] == 1 && (!has_blocks(p) || p.depth >= block_depth); }

// Rows of a tile, for weights that go through registers: more rows take longer than weights that are packed for them. Where
// pairs of bf16 are widened, two tiles of class rows8 do not (measured on a Xeon).
struct FewRows {
    std::int64_t rows;
    std::string_view shape_class, class_of_memory, reason;
};
constexpr std::array<FewRows, 3> few_rows{{{4, "rows4", "rows4_mem", "up to 4 rows"},
                                           {8, "rows8", "rows8_mem", "up to 8 rows"},
                                           {12, "rows12", "rows12_mem", "up to 12 rows"}}};
constexpr std::int64_t several_rows_of_widened_pairs = 16;
bool suits_few_rows(const Product &p) { return has_blocks(p) && !packed(p) && p.depth >= block_depth && p.x.extent[2] > 1; }

// Few rows of products in a batch, whose right factors would take longer to pack than to multiply. Those of many columns are
// read row by row, where there are enough tasks for some threads; of bf16 and f16 also fewer columns that do not fill their
// tiles.
void add_few_rows_of_batch(const Product &p, bool full_tiles, std::vector<Candidate> &list, std::string_view schedule) {
    constexpr std::int64_t many_columns = 512, columns_of_task = 1024, tasks_of_some_threads = 8, many_rows = 16, several = 8;
    const std::int64_t rows = p.x.extent[2], wide = wide_columns(p);
    const bool widened = is_widened(p.x.dtype), half = p.columns * 2 <= wide, quarter = p.columns * 4 <= wide;
    const std::int64_t tasks = p.x.extent[0] * p.x.extent[1] * ceil_div(p.columns, columns_of_task);
    const bool are_tasks = rows <= many_rows && tasks >= tasks_of_some_threads;
    const Candidate row_by_row{schedule, rows == 1 ? "rows1_many_columns" : "rows16_many_columns", "few rows of many columns"};
    if (are_tasks && (p.columns >= many_columns || (widened && p.columns > wide && !full_tiles))) list.push_back(row_by_row);
    // To pack is to widen, too, once for all rows: narrow tiles are as quick then.
    if (rows == 1 || rows > several || (widened && quarter)) return;
    list.push_back(half ? Candidate{schedule, "rows8_half_tile", "up to 8 rows of few columns"}
                        : Candidate{schedule, "rows8", "up to 8 rows"});
    if (widened && are_tasks) list.push_back(row_by_row);
}

// Columns of the last wide tile, if they leave too much of it unfilled; 0 otherwise.
std::int64_t padded_columns(const Product &p) {
    constexpr std::int64_t padding_percent_at_most = 10;
    const std::int64_t wide = wide_columns(p), last = p.columns % wide, padding = (wide - last) % wide;
    return !packed(p) && padding * 100 > p.columns * padding_percent_at_most ? last : 0;
}
// The same, if narrower tiles take less time.
std::int64_t last_columns(const Product &p) {
    const std::int64_t last = padded_columns(p);
    return last * 4 <= wide_columns(p) * 3 ? last : 0;
}
bool over_half(const Product &p, std::int64_t columns) { return columns * 2 > wide_columns(p); }

// Classes to look for, the best first. All of a schedule sum in the same order, so the choice may depend on anything.
std::vector<Candidate> candidates(const Product &p) {
    constexpr std::int64_t depth_in_cache_bytes = 512 << 10, padding_percent_at_most = 10;
    // Tasks of class depth512 are wide, and long: enough of them for some threads, and all nearly full.
    constexpr std::int64_t depth512_depth = 512, depth512_columns = 512, depth512_rows = 512, depth512_tasks = 4;
    const std::int64_t depth512_padding = (depth512_columns - p.columns % depth512_columns) % depth512_columns;
    const bool depth512 =
        p.depth <= depth512_depth && depth512_padding * 100 <= p.columns * padding_percent_at_most &&
        (p.x.extent[2] / depth512_rows) * ((p.columns + depth512_padding) / depth512_columns) >= depth512_tasks;
    // Rows one after the other: of a large stride they would push each other out of the caches.
    const bool full_tiles = p.op.id == OpId::batch_dot && p.columns % wide_columns(p) == 0 && p.weight.stride[2] == p.columns;
    constexpr std::int64_t one_depth_block = 256;  // of f32, which alone has class full_tiles_depth256
    std::vector<Candidate> list;
    list.reserve(most_candidates);
    if (p.x.dtype == DType::bf16 && p.op.id == OpId::linear) {  // sum in the order of "amx"
        constexpr std::int64_t rows_of_amx_tile = 16, rows_of_full_tiles = 32;
        const std::int64_t rows = p.x.extent[2];
        if (rows <= rows_of_full_tiles && fills_amx_tiles(p))
            list.push_back({"amx_gemv", "rows32_full_tiles", "few rows, of a depth that fills AMX tiles"});
        if (rows <= rows_of_amx_tile) list.push_back({"amx_gemv", "rows16", "few rows"});
    }
    // Products of AMX tiles or of pairs sum in another order, so wherever there are any they serve every class.
    for (const std::string_view schedule : {"amx", "bf16_dot", "panels"}) {
        if (schedule != "panels" && p.x.dtype != DType::bf16) continue;
        if (schedule == "bf16_dot" && p.depth < 2) continue;
        if (p.op.id == OpId::batch_dot) add_few_rows_of_batch(p, full_tiles, list, schedule);
        if (full_tiles && p.x.extent[2] == 1 && p.columns % (2 * wide_columns(p)) == 0)
            list.push_back({schedule, "rows1_full_tile_pairs", "one row of columns that fill two wide tiles each"});
        if (full_tiles && p.x.extent[2] == 1)
            list.push_back({schedule, "rows1_full_tiles", "one row of columns that fill wide tiles"});
        if (suits_row(p) && beyond_caches(p) && !has_bytes(p, bytes_beyond_llc))
            list.push_back({schedule, "rows1_llc", "one row, of weights of about as many bytes as a last cache has"});
        if (suits_row(p) && beyond_caches(p) && rows_share_sets(p))
            list.push_back(
                {schedule, "rows1_mem_set_conflict", "one row, of weights that come from memory, whose rows share sets"});
        if (suits_row(p) && beyond_caches(p))
            list.push_back({schedule, "rows1_mem", "one row, of weights that come from memory"});
        if (suits_row(p) && rows_share_sets(p))
            list.push_back({schedule, "rows1_set_conflict", "one row, of weights whose rows share sets of the first cache"});
        if (suits_row(p)) list.push_back({schedule, "rows1", "one row"});
        for (const FewRows &few : few_rows) {
            const bool widened = schedule == "panels" && p.x.dtype == DType::bf16 && few.shape_class == "rows8";
            if (!suits_few_rows(p) || p.x.extent[2] > (widened ? several_rows_of_widened_pairs : few.rows)) continue;
            if (beyond_caches(p)) list.push_back({schedule, few.class_of_memory, "few rows, of weights that come from memory"});
            list.push_back({schedule, few.shape_class, few.reason});
        }
        if (schedule == "amx" && padded_columns(p) > 0)
            list.push_back({schedule, "narrow", "columns that would leave wide tiles unfilled"});
        if (last_columns(p) == p.columns && over_half(p, p.columns)) {
            list.push_back({schedule, "three_quarter_tile", "columns that fill three quarters of a wide tile"});
        } else if (last_columns(p) == p.columns) {
            if (p.columns * 4 > wide_columns(p))
                list.push_back({schedule, "half_tile", "columns that fill half of a wide tile"});
            list.push_back({schedule, "narrow", "few columns"});
        }
        // Of rows that panels widen there are as many bytes again; weights of pairs come a second time, for the last
        // accumulator.
        const std::int64_t kept = (schedule == "panels" && is_widened(p.x.dtype)) || schedule == "bf16_dot" ? 2 : 1;
        const bool depth_in_cache = p.depth * wide_bytes * kept <= depth_in_cache_bytes;
        if (full_tiles && p.depth <= one_depth_block)
            list.push_back({schedule, "full_tiles_depth256", "columns that fill wide tiles, of a depth of one depth block"});
        if (full_tiles && !depth_in_cache)
            list.push_back({schedule, "full_tiles_deep", "columns that fill wide tiles, of a depth beyond the caches"});
        if (full_tiles) list.push_back({schedule, "full_tiles", "columns that fill wide tiles"});
        if (suits_many_rows_mem(p, depth_in_cache))
            list.push_back({schedule, "many_rows_mem", "many rows, of weights that come from memory or a shared cache"});
        if (depth512) list.push_back({schedule, "depth512", "a depth of few weights, for many rows and columns"});
        if (depth_in_cache && !lacks_pair(p, schedule))
            list.push_back({schedule, "depth_in_cache", "a depth whose weights stay in cache"});
        list.push_back({schedule, "many_rows", "many rows"});
    }
    list.push_back({"root", "", "nothing else is built"});
    return list;
}

// What a forced variant takes instead; empty if it takes the product.
std::string why_unfit(const Product &p, const VariantRecord &variant) {
    if (variant.schedule == "bf16_dot" && p.depth == 1) return "a last extent of x from 2, got 1";
    if (p.depth < block_depth && has_blocks(p) && is_of_few_rows(variant))
        return "a last extent of x from " + text(block_depth) + ", got " + text(p.depth);
    if (variant.shape_class == "depth_in_cache" && lacks_pair(p, variant.schedule))
        return "an even last extent of x, got " + text(p.depth);
    if (variant.shape_class.find("full_tile") == std::string_view::npos) return {};
    if (variant.schedule == "amx_gemv") {
        if (p.depth % amx_tile_depth != 0)
            return "a last extent of x that " + text(amx_tile_depth) + " divides, got " + text(p.depth);
        if (p.columns < amx_tile_columns)
            return "a first extent of weight from " + text(amx_tile_columns) + ", got " + text(p.columns);
        return {};
    }
    const std::int64_t wide = wide_columns(p) * (variant.shape_class == "rows1_full_tile_pairs" ? 2 : 1);
    if (p.columns % wide != 0) return "a last extent of x that " + text(wide) + " divides, got " + text(p.columns);
    return {};
}

}  // namespace

Product columns_of(const Product &p, std::int64_t first, std::int64_t count) {
    Product part = p;
    part.columns = count;
    part.weight = part_of(p.weight, p.op.id == OpId::batch_dot ? 3 : 0, first, count);
    if (p.bias.given()) part.bias = part_of(p.bias, 0, first, count);
    part.out = part_of(p.out, 3, first, count);
    return part;
}

Status choose_for(const Product &p, const Forced &forced, ProductChoice &choice) {
    const VariantNeeds needs{.op = p.op, .dtype = p.x.dtype};
    if (Status s = choose_variant(needs, candidates(p), forced, choice.variants); !s.ok()) return s;
    if (const std::string unfit = why_unfit(p, *choice.variants.variant); !unfit.empty())
        return {StatusCode::invalid_argument, "variant: " + std::string(choice.variants.variant->name) + " takes " + unfit};
    choice.first_columns = p.columns;
    const std::int64_t last = last_columns(p);
    if (last == 0 || last == p.columns || choice.variants.forced) return {};
    // AMX tiles are wider than a wide tile of others, and those of few rows are narrow.
    const VariantRecord &for_all = *choice.variants.variant;
    if (for_all.schedule == "amx" || is_of_few_rows(for_all)) return {};
    Choice of_last;
    if (Status s = choose_variant(needs, candidates(columns_of(p, p.columns - last, last)), forced, of_last); !s.ok()) return s;
    if (over_half(p, last) && of_last.variant->shape_class != "three_quarter_tile") return {};  // as wide as the others
    choice.first_columns = p.columns - last;
    if (Status s = choose_variant(needs, candidates(columns_of(p, 0, choice.first_columns)), forced, choice.variants); !s.ok())
        return s;
    choice.variants.of_last = of_last.variant, choice.variants.last = "columns";
    return {};
}

}  // namespace attune
