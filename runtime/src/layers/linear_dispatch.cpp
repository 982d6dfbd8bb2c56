// SPDX-License-Identifier: MIT
#include "dispatch/decisions.h"
#include "layers/linear_call.h"
#include "layers/product_cost.h"

namespace attune {
namespace {

// AMX kernels of few rows read tiles of weights in place, without masks.
constexpr std::int64_t amx_tile_depth = 32, amx_tile_columns = 32, rows_of_amx_tile = 16, rows_of_two_amx_tiles = 32;
// Kernels of few rows read weights in whole blocks, of at most a cache line, or a pair for each accumulator.
constexpr std::int64_t block_depth = 32;
constexpr std::int64_t wide_bytes = 256;  // of sums, in a row of the widest register tile

// Forms that sum in one order. The bits of linear() must not depend on the number of rows, so every call of a type takes the
// first of these that has a kernel.
enum class Order { amx, bf16_dot, panels, root };
Order order_of(Schedule schedule) {
    switch (schedule) {
    case Schedule::amx:
    case Schedule::amx_gemv: return Order::amx;
    case Schedule::bf16_dot: return Order::bf16_dot;
    case Schedule::panels: return Order::panels;
    default: return Order::root;
    }
}

// The last product of an odd depth, of which there is no pair, comes after all others: when a tile of class depth_in_cache has
// been written already.
bool lacks_pair(const ProductProblem &p, const Runnable &v) {
    return v.record->schedule_id == Schedule::bf16_dot && v.record->shape_class == "depth_in_cache" && p.depth % 2 == 1;
}

std::int64_t full_columns(const ProductProblem &p, const Runnable &v) {
    const std::int64_t wide = wide_bytes / size_of(sum_type(p.dtype));
    return wide * (v.record->shape_class == "rows1_full_tile_pairs" ? 2 : 1);
}

// Why a variant cannot compute the product; empty if it can.
std::string why_unfit(const ProductProblem &p, const Runnable &v) {
    if (v.record->schedule_id == Schedule::bf16_dot && p.depth == 1) return "a last extent of x from 2, got 1";
    if (p.op == "linear" && p.depth < block_depth && v.few_rows)
        return "a last extent of x from " + text(block_depth) + ", got " + text(p.depth);
    if (lacks_pair(p, v)) return "an even last extent of x, got " + text(p.depth);
    if (!v.full_tiles) return {};
    if (v.record->schedule_id == Schedule::amx_gemv) {
        if (p.depth % amx_tile_depth != 0)
            return "a last extent of x that " + text(amx_tile_depth) + " divides, got " + text(p.depth);
        if (p.columns < amx_tile_columns)
            return "a first extent of weight from " + text(amx_tile_columns) + ", got " + text(p.columns);
        return {};
    }
    const std::int64_t wide = full_columns(p, v);
    return p.columns % wide == 0 ? "" : "a last extent of x that " + text(wide) + " divides, got " + text(p.columns);
}

bool fits(const ProductProblem &p, const Runnable &v) {
    if (v.record->schedule_id == Schedule::root) return true;
    if (v.record->schedule_id == Schedule::bf16_dot && p.depth == 1) return false;
    if (p.op == "linear" && p.depth < block_depth && v.few_rows) return false;
    if (v.record->schedule_id == Schedule::amx_gemv) {
        if (v.full_tiles && (p.depth % amx_tile_depth != 0 || p.columns < amx_tile_columns)) return false;
        return p.rows <= (v.full_tiles ? rows_of_two_amx_tiles : rows_of_amx_tile);
    }
    // Rows of weights far apart would push each other out of the caches where full tiles read them in place.
    const bool dense = p.weight_stride == 0 || p.weight_stride == p.columns;
    if (v.full_tiles && (!dense || p.columns % full_columns(p, v) != 0)) return false;
    return !lacks_pair(p, v);
}

Order order_for(std::span<const Runnable> list, const ProductProblem &p) {
    Order first = Order::root;
    for (const Runnable &v : list)
        if (fits(p, v)) first = std::min(first, order_of(v.record->schedule_id));
    return first;
}

PredictedVariant quickest(std::span<const Runnable> list, const ProductProblem &p, Order order,
                          PredictedVariant *next = nullptr) {
    return quickest_of(
        list, [&](const Runnable &v) { return order_of(v.record->schedule_id) == order && fits(p, v); },
        [&](const Runnable &v) { return predicted_ns(p, v); }, next);
}

// Columns that fill the tiles of one variant, and the last columns of another one.
struct SharedColumns {
    std::int64_t columns = 0;
    PredictedVariant first, last;
    double ns() const { return first.ns + last.ns; }
};
SharedColumns quickest_of_two(std::span<const Runnable> list, const ProductProblem &p, Order order) {
    SharedColumns best;
    std::int64_t known_rest = 0;
    PredictedVariant of_known;
    for (const Runnable &v : list) {
        const std::int64_t rest = p.columns % v.tile_columns;
        // Rank-k updates have no padded columns, and AMX tiles are wider than the widest register tile of others.
        if (order_of(v.record->schedule_id) != order || order == Order::amx || order == Order::root || v.rank_k_update ||
            v.few_rows)
            continue;
        if (rest == 0 || rest == p.columns) continue;
        ProductProblem first = p, last = p;
        first.columns -= rest, last.columns = rest;
        if (p.weight_stride == 0 && p.op == "batch_dot") first.weight_stride = last.weight_stride = p.columns;
        if (!fits(first, v)) continue;
        if (rest != known_rest) of_known = quickest(list, last, order), known_rest = rest;
        const SharedColumns shared{first.columns, {&v, predicted_ns(first, v)}, of_known};
        if (of_known.variant && of_known.variant != &v && (!best.first.variant || shared.ns() < best.ns())) best = shared;
    }
    return best;
}

}  // namespace

static bool same_sizes(const ProductProblem &a, const ProductProblem &b) {
    return a.dtype == b.dtype && a.entries == b.entries && a.rows == b.rows && a.columns == b.columns && a.depth == b.depth &&
           a.weight_stride == b.weight_stride;
}
static std::size_t mixed_sizes(const ProductProblem &p) { return mixed({p.entries, p.rows, p.columns, p.depth}); }

ProductProblem problem_of(const Product &p) {
    const bool packed = p.weight.rank == packed_rank;
    return {.op = p.op.name,
            .dtype = p.x.dtype,
            .entries = p.x.extent[0] * p.x.extent[1],
            .rows = p.x.extent[2],
            .columns = p.columns,
            .depth = p.depth,
            .weight_stride = packed ? 0 : p.weight.stride[p.weight.rank - 2]};
}

Product columns_of(const Product &p, std::int64_t first, std::int64_t count) {
    Product part = p;
    part.columns = count;
    part.weight = part_of(p.weight, p.op.id == OpId::batch_dot ? 3 : 0, first, count);
    if (p.bias.given()) part.bias = part_of(p.bias, 0, first, count);
    part.out = part_of(p.out, 3, first, count);
    return part;
}

static Status decide(const Op &op, const ProductProblem &p, ProductChoice &choice) {
    const VariantNeeds needs{.op = op, .dtype = p.dtype};
    const std::span<const Runnable> list = runnables(needs);
    const Order order = order_for(list, p);
    PredictedVariant next;
    const PredictedVariant one = quickest(list, p, order, &next);
    if (!one.variant) return no_variant(needs);
    Choice &c = choice.variants;
    c = {one.variant->record, order == Order::root ? "nothing else is built" : "least predicted time"};
    c.predicted_ns = one.ns;
    if (next.variant) c.next = next.variant->record, c.next_ns = next.ns;
    choice.first_columns = p.columns;
    // Columns of a packed weight lie in panels, which no part may cut.
    if (op.id == OpId::linear_packed) return {};
    const SharedColumns two = quickest_of_two(list, p, order);
    if (!two.first.variant || two.ns() >= one.ns) return {};
    choice.first_columns = two.columns;
    c.variant = two.first.variant->record, c.predicted_ns = two.ns(), c.next = one.variant->record, c.next_ns = one.ns;
    c.of_last = two.last.variant->record, c.last = "columns";
    return {};
}

Status choose_for(const Op &op, const ProductProblem &p, const Forced &forced, ProductChoice &choice) {
    if (forced.name.empty()) {
        static thread_local Decisions<ProductProblem, ProductChoice> decisions;
        return decisions.get(
            op, p, [&](ProductChoice &decided) { return decide(op, p, decided); }, choice);
    }
    choice.first_columns = p.columns;
    if (Status s = use_forced({.op = op, .dtype = p.dtype}, forced, choice.variants); !s.ok()) return s;
    const VariantRecord &v = *choice.variants.variant;
    if (const std::string unfit = why_unfit(p, runnable_of(v)); !unfit.empty())
        return {StatusCode::invalid_argument, "variant: " + std::string(v.name) + " takes " + unfit};
    return {};
}

std::vector<PredictedVariant> predictions(const Op &op, const ProductProblem &p) {
    const std::span<const Runnable> list = runnables({.op = op, .dtype = p.dtype});
    const Order order = order_for(list, p);
    return sorted_by_time(
        list, [&](const Runnable &v) { return order_of(v.record->schedule_id) == order && fits(p, v); },
        [&](const Runnable &v) { return predicted_ns(p, v); });
}

}  // namespace attune
