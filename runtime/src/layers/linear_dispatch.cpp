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

// Conditions of a kernel on the sizes of a product.
enum class Need { nothing, two_deep, block_deep, even_depth, whole_tiles_deep, tile_of_columns, whole_columns, dense_panels };

// The first need of a variant that the product does not meet.
Need unmet_by(const ProductProblem &p, const Runnable &v) {
    if (v.record->schedule_id == Schedule::bf16_dot && p.depth == 1) return Need::two_deep;
    if (p.op == "linear" && p.depth < block_depth && v.few_rows) return Need::block_deep;
    if (lacks_pair(p, v)) return Need::even_depth;
    if (!v.full_tiles) return Need::nothing;
    if (order_of(v.record->schedule_id) != Order::amx)
        return p.columns % full_columns(p, v) == 0 ? Need::nothing : Need::whole_columns;
    if (p.depth % amx_tile_depth != 0) return Need::whole_tiles_deep;
    if (p.op == "linear_packed") return p.weight_stride == 0 ? Need::nothing : Need::dense_panels;
    return p.columns < amx_tile_columns ? Need::tile_of_columns : Need::nothing;
}

// Why a variant cannot compute the product; empty if it can.
std::string why_unfit(const ProductProblem &p, const Runnable &v) {
    const auto depth = [&](const std::string &needed) { return needed + ", got " + text(p.depth); };
    switch (unmet_by(p, v)) {
    case Need::two_deep: return depth("a last extent of x from 2");
    case Need::block_deep: return depth("a last extent of x from " + text(block_depth));
    case Need::even_depth: return depth("an even last extent of x");
    case Need::whole_tiles_deep: return depth("a last extent of x that " + text(amx_tile_depth) + " divides");
    case Need::tile_of_columns: return "a first extent of weight from " + text(amx_tile_columns) + ", got " + text(p.columns);
    case Need::whole_columns: return "a last extent of x that " + text(full_columns(p, v)) + " divides, got " + text(p.columns);
    case Need::dense_panels: return "a packed weight whose panels follow each other in memory";
    case Need::nothing: break;
    }
    return {};
}

// Whether dispatch may take a variant for the product.
bool fits(const ProductProblem &p, const Runnable &v) {
    if (unmet_by(p, v) != Need::nothing) return false;
    if (v.record->schedule_id == Schedule::amx_gemv) return p.rows <= (v.full_tiles ? rows_of_two_amx_tiles : rows_of_amx_tile);
    // Rows of weights far apart would push each other out of the caches where full tiles read them in place.
    return !v.full_tiles || p.weight_stride == 0 || p.weight_stride == p.columns;
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

// Rank-k updates have no padded columns, AMX tiles are wider than the widest register tile of others, and columns of a packed
// weight lie in panels, which no part may cut.
SharedCall quickest_of_two(std::span<const Runnable> list, const ProductProblem &p, Order order) {
    if (order == Order::amx || order == Order::root || p.op == "linear_packed") return {};
    const auto part_of = [&](std::int64_t columns) {
        ProductProblem part = p;
        part.columns = columns;
        if (p.weight_stride == 0 && p.op == "batch_dot") part.weight_stride = p.columns;
        return part;
    };
    const auto rest_of = [&](const Runnable &v) {
        if (order_of(v.record->schedule_id) != order || v.rank_k_update || v.few_rows) return std::int64_t(0);
        const std::int64_t rest = p.columns % v.tile_columns;
        return rest < p.columns && fits(part_of(p.columns - rest), v) ? rest : 0;
    };
    const auto first_ns = [&](const Runnable &v, std::int64_t rest) { return predicted_ns(part_of(p.columns - rest), v); };
    return attune::quickest_of_two(list, rest_of, first_ns,
                                   [&](std::int64_t rest) { return quickest(list, part_of(rest), order); });
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
            .weight_stride = !packed                   ? p.weight.stride[p.weight.rank - 2]
                             : is_one_matrix(p.weight) ? 0
                                                       : p.weight.stride[0]};
}

Product columns_of(const Product &p, std::int64_t first, std::int64_t count) {
    Product part = p;
    part.columns = count;
    const bool packed = p.weight.rank == packed_rank;
    const std::int64_t of_place = packed ? packed_columns : 1;
    part.weight = part_of(p.weight, p.op.id == OpId::batch_dot ? 3 : 0, first / of_place, ceil_div(count, of_place));
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
    choice = {Choice::of(one, next), p.columns};
    const SharedCall two = quickest_of_two(list, p, order);
    if (choice.variants.share(two, "columns")) choice.first_columns -= p.columns % two.first.variant->tile_columns;
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
