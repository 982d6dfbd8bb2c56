// SPDX-License-Identifier: MIT
#include "layers/linear_call.h"
#include <array>
#include <string>
#include <vector>

namespace attune {
namespace {

constexpr std::int64_t wide_bytes = 256;  // of sums, in a row of the tiles of class many

std::int64_t wide_columns(const Product &p) { return wide_bytes / size_of(sum_type(p.x.dtype)); }
bool packed(const Product &p) { return p.weight.rank == packed_rank; }

constexpr std::int64_t matrix_tile_depth = 32, matrix_tile_columns = 32;  // of schedule weight_tiles

// Whether its weights can be read as they lie.
bool fills_matrix_tiles(const Product &p) { return p.depth % matrix_tile_depth == 0 && p.columns >= matrix_tile_columns; }

// Variants of linear by few rows read weights in whole blocks, of a cache line at most, or a pair for each strand; other
// weights lie as their sums read them.
constexpr std::int64_t block_depth = 32;
bool is_of_few_rows(const VariantRecord &v) { return number_of(v, "tile_rows", 0) == 1 || number_of(v, "few", 0) == 1; }
bool has_blocks(const Product &p) { return p.op.id == OpId::linear; }
// Rows of weights so many bytes apart lie in the same set of a first cache, which has room for eight lines of them.
constexpr std::int64_t bytes_between_lines_of_a_set = 4096;
bool rows_share_sets(const Product &p) {
    return has_blocks(p) && p.weight.stride[p.weight.rank - 2] * size_of(p.weight.dtype) % bytes_between_lines_of_a_set == 0;
}
// Weights of so many bytes stay in no last cache of a few cores, and in none of a core's own. Up to the edge, a last cache may
// have the larger part of them in one process and less in the next, by where their pages are.
constexpr std::int64_t bytes_beyond_caches = 32 << 20, bytes_beyond_own_caches = 8 << 20, bytes_beyond_edge = 48 << 20;
bool has_bytes(const Product &p, std::int64_t bytes) {
    return has_blocks(p) && p.columns * p.depth * size_of(p.weight.dtype) >= bytes;
}
bool beyond_caches(const Product &p) { return has_bytes(p, bytes_beyond_caches); }
// Many rows for whose sums weights are fetched: so many take longer than their weights take to come, and in bf16, summed in
// pairs, those that another cache has are there soon enough.
bool suits_large_many(const Product &p, bool shallow) {
    constexpr std::int64_t rows_beyond_memory = 256;
    if (shallow && p.x.extent[2] >= rows_beyond_memory) return false;
    return has_bytes(p, p.x.dtype == DType::bf16 ? bytes_beyond_caches : bytes_beyond_own_caches);
}
// The last product of an odd depth, of which there is no pair, comes after all others: where a tile of class shallow has left
// already.
bool lacks_pair(const Product &p, std::string_view schedule) { return schedule == "pairs" && p.depth % 2 == 1; }
bool suits_row(const Product &p) { return p.x.extent[2] == 1 && (!has_blocks(p) || p.depth >= block_depth); }

// Rows of a tile, for weights that go through registers: more rows take longer than weights that are packed for them. Where
// pairs of bf16 are widened, two tiles of class several do not (measured on a Xeon).
struct FewRows {
    std::int64_t rows;
    std::string_view shape_class, large_class, reason;
};
constexpr std::array<FewRows, 3> few_rows{{{4, "few", "large_few", "few rows"},
                                           {8, "several", "large_several", "several rows"},
                                           {12, "dozen", "large_dozen", "a dozen rows"}}};
constexpr std::int64_t several_rows_of_widened_pairs = 16;
bool suits_few_rows(const Product &p) { return has_blocks(p) && !packed(p) && p.depth >= block_depth && p.x.extent[2] > 1; }

// Few rows of products in a batch, whose right factors would take longer to pack than to multiply. Those of many columns are
// read row by row, where there are enough tasks for some threads; of bf16 and f16 also fewer columns that do not fill their
// tiles.
void add_few_rows_of_batch(const Product &p, bool whole, std::vector<Wish> &list, std::string_view schedule) {
    constexpr std::int64_t many_columns = 512, columns_of_task = 1024, tasks_of_some_threads = 8, many_rows = 16, several = 8;
    const std::int64_t rows = p.x.extent[2], wide = wide_columns(p);
    const bool widened = is_widened(p.x.dtype), half = p.columns * 2 <= wide, quarter = p.columns * 4 <= wide;
    const std::int64_t tasks = p.x.extent[0] * p.x.extent[1] * ceil_div(p.columns, columns_of_task);
    const bool are_tasks = rows <= many_rows && tasks >= tasks_of_some_threads;
    const Wish row_by_row{schedule, rows == 1 ? "long_row" : "long_few", "few rows of many columns"};
    if (are_tasks && (p.columns >= many_columns || (widened && p.columns > wide && !whole))) list.push_back(row_by_row);
    // To pack is to widen, too, once for all rows: narrow tiles are as quick then.
    if (rows == 1 || rows > several || (widened && quarter)) return;
    list.push_back(half ? Wish{schedule, "several", "several rows of few columns"} : Wish{schedule, "few", "few rows"});
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
std::vector<Wish> wishes(const Product &p) {
    constexpr std::int64_t shallow_bytes = 512 << 10, padding_percent_at_most = 10;
    // Tasks of class flat are wide, and long: enough of them for some threads, and all nearly full.
    constexpr std::int64_t flat_depth = 512, flat_columns = 512, flat_rows = 512, flat_tasks = 4;
    const std::int64_t flat_padding = (flat_columns - p.columns % flat_columns) % flat_columns;
    const bool flat = p.depth <= flat_depth && flat_padding * 100 <= p.columns * padding_percent_at_most &&
                      (p.x.extent[2] / flat_rows) * ((p.columns + flat_padding) / flat_columns) >= flat_tasks;
    // Rows one after the other: of a large stride they would push each other out of the caches.
    const bool whole = p.op.id == OpId::batch_dot && p.columns % wide_columns(p) == 0 && p.weight.stride[2] == p.columns;
    constexpr std::int64_t one_chunk = 256;  // of f32, which alone has class whole_shallow
    std::vector<Wish> list;
    list.reserve(most_wishes);
    if (p.x.dtype == DType::bf16 && p.op.id == OpId::linear) {  // sum in the order of "tiles"
        constexpr std::int64_t rows_of_matrix_tile = 16, rows_of_whole = 32;
        const std::int64_t rows = p.x.extent[2];
        if (rows <= rows_of_whole && fills_matrix_tiles(p))
            list.push_back({"weight_tiles", "whole", "few rows, of a depth that fills matrix tiles"});
        if (rows <= rows_of_matrix_tile) list.push_back({"weight_tiles", "few", "few rows"});
    }
    // Products of matrix tiles or of pairs sum in another order, so wherever there are any they serve every class.
    for (const std::string_view schedule : {"tiles", "pairs", "panels"}) {
        if (schedule != "panels" && p.x.dtype != DType::bf16) continue;
        if (schedule == "pairs" && p.depth < 2) continue;
        if (p.op.id == OpId::batch_dot) add_few_rows_of_batch(p, whole, list, schedule);
        if (whole && p.x.extent[2] == 1 && p.columns % (2 * wide_columns(p)) == 0)
            list.push_back({schedule, "whole_wide_row", "one row of columns that fill two wide tiles each"});
        if (whole && p.x.extent[2] == 1) list.push_back({schedule, "whole_row", "one row of columns that fill wide tiles"});
        if (suits_row(p) && beyond_caches(p) && !has_bytes(p, bytes_beyond_edge))
            list.push_back({schedule, "edge_row", "one row, of weights of about as many bytes as a last cache has"});
        if (suits_row(p) && beyond_caches(p) && rows_share_sets(p))
            list.push_back({schedule, "large_aliased_row", "one row, of weights that come from memory, whose rows share sets"});
        if (suits_row(p) && beyond_caches(p))
            list.push_back({schedule, "large_row", "one row, of weights that come from memory"});
        if (suits_row(p) && rows_share_sets(p))
            list.push_back({schedule, "aliased_row", "one row, of weights whose rows share sets of the first cache"});
        if (suits_row(p)) list.push_back({schedule, "row", "one row"});
        for (const FewRows &few : few_rows) {
            const bool widened = schedule == "panels" && p.x.dtype == DType::bf16 && few.shape_class == "several";
            if (!suits_few_rows(p) || p.x.extent[2] > (widened ? several_rows_of_widened_pairs : few.rows)) continue;
            if (beyond_caches(p)) list.push_back({schedule, few.large_class, "few rows, of weights that come from memory"});
            list.push_back({schedule, few.shape_class, few.reason});
        }
        if (schedule == "tiles" && padded_columns(p) > 0)
            list.push_back({schedule, "narrow", "columns that would leave wide tiles unfilled"});
        if (last_columns(p) == p.columns && over_half(p, p.columns)) {
            list.push_back({schedule, "three_quarters", "columns that fill three quarters of a wide tile"});
        } else if (last_columns(p) == p.columns) {
            if (p.columns * 4 > wide_columns(p)) list.push_back({schedule, "half", "columns that fill half of a wide tile"});
            list.push_back({schedule, "narrow", "few columns"});
        }
        // Of rows that panels widen there are as many bytes again; weights of pairs come a second time, for the last strand.
        const std::int64_t kept = (schedule == "panels" && is_widened(p.x.dtype)) || schedule == "pairs" ? 2 : 1;
        const bool shallow = p.depth * wide_bytes * kept <= shallow_bytes;
        if (whole && p.depth <= one_chunk)
            list.push_back({schedule, "whole_shallow", "columns that fill wide tiles, of a depth of one chunk"});
        if (whole && !shallow)
            list.push_back({schedule, "whole_deep", "columns that fill wide tiles, of a depth beyond the caches"});
        if (whole) list.push_back({schedule, "whole", "columns that fill wide tiles"});
        if (suits_large_many(p, shallow))
            list.push_back({schedule, "large_many", "many rows, of weights that come from memory or a shared cache"});
        if (flat) list.push_back({schedule, "flat", "a depth of few weights, for many rows and columns"});
        if (shallow && !lacks_pair(p, schedule)) list.push_back({schedule, "shallow", "a depth whose weights stay in cache"});
        list.push_back({schedule, "many", "many rows"});
    }
    list.push_back({"root", "", "nothing else is built"});
    return list;
}

// What a forced variant takes instead; empty if it takes the product.
std::string why_unfit(const Product &p, const VariantRecord &variant) {
    if (variant.schedule == "pairs" && p.depth == 1) return "a last extent of x from 2, got 1";
    if (p.depth < block_depth && has_blocks(p) && is_of_few_rows(variant))
        return "a last extent of x from " + text(block_depth) + ", got " + text(p.depth);
    if (variant.shape_class == "shallow" && lacks_pair(p, variant.schedule))
        return "an even last extent of x, got " + text(p.depth);
    if (!variant.shape_class.starts_with("whole")) return {};
    if (variant.schedule == "weight_tiles") {
        if (p.depth % matrix_tile_depth != 0)
            return "a last extent of x that " + text(matrix_tile_depth) + " divides, got " + text(p.depth);
        if (p.columns < matrix_tile_columns)
            return "a first extent of weight from " + text(matrix_tile_columns) + ", got " + text(p.columns);
        return {};
    }
    const std::int64_t wide = wide_columns(p) * (variant.shape_class == "whole_wide_row" ? 2 : 1);
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
    if (Status s = choose_variant(needs, wishes(p), forced, choice.variants); !s.ok()) return s;
    if (const std::string unfit = why_unfit(p, *choice.variants.variant); !unfit.empty())
        return {StatusCode::invalid_argument, "variant: " + std::string(choice.variants.variant->name) + " takes " + unfit};
    choice.first_columns = p.columns;
    const std::int64_t last = last_columns(p);
    if (last == 0 || last == p.columns || choice.variants.forced) return {};
    // Matrix tiles are wider than a wide tile of others, and those of few rows are narrow.
    const VariantRecord &for_all = *choice.variants.variant;
    if (for_all.schedule == "tiles" || is_of_few_rows(for_all)) return {};
    Choice of_last;
    if (Status s = choose_variant(needs, wishes(columns_of(p, p.columns - last, last)), forced, of_last); !s.ok()) return s;
    if (over_half(p, last) && of_last.variant->shape_class != "three_quarters") return {};  // as wide as the others
    choice.first_columns = p.columns - last;
    if (Status s = choose_variant(needs, wishes(columns_of(p, 0, choice.first_columns)), forced, choice.variants); !s.ok())
        return s;
    choice.variants.of_last = of_last.variant, choice.variants.last = "columns";
    return {};
}

}  // namespace attune
