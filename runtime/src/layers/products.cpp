// SPDX-License-Identifier: MIT
// Products with a matrix, for linear layers and batch_dot: arguments of their kernels, and division into tasks.
#include "dispatch/shape_record.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
#include "layers/product_cost.h"
#include <algorithm>

namespace attune {
namespace {

// Elements of each row of the weight before the first cache line that begins in it; 0 if rows differ in that.
std::int32_t elements_before_line(const ConstView &weight) {
    constexpr std::int64_t line_bytes = 64;
    const std::int64_t size = size_of(weight.dtype);
    if (weight.stride[weight.rank - 2] * size % line_bytes != 0) return 0;
    const auto address = reinterpret_cast<std::uintptr_t>(weight.data);
    return static_cast<std::int32_t>((line_bytes - static_cast<std::int64_t>(address % line_bytes)) % line_bytes / size);
}

Status run_kernel(Context::State &context, const Product &p, const VariantRecord &variant) {
    const int threads = worthwhile_threads(work_of(problem_of(p)), context.threads);
    const ProductTiles tiles = product_tiles(variant, parameter_of(variant, "tile_rows", 1),
                                             parameter_of(variant, "tile_columns", 1), parameter_of(variant, "task_rows", 1));
    const auto task_tiles =
        static_cast<std::int32_t>(tiles_of_task(p.x.extent[0] * p.x.extent[1], p.x.extent[2], p.columns, tiles, threads));
    const bool panels_in_one = p.weight.rank == packed_rank && takes_full_tiles(variant);
    HalideBuffer x(p.x), weight(panels_in_one ? as_one_matrix(p.weight) : p.weight), out(p.out);
    if (p.op.id == OpId::batch_dot) {
        const BatchDotArguments arguments{.a = x.get(), .x = weight.get(), .task_tiles = task_tiles, .out = out.get()};
        return call_kernel(context, variant.kernel, arguments, threads);
    }
    static constexpr double zero = 0;  // all bits are 0, in f32 too
    ConstView start(&zero, {p.columns}, {0});
    start.dtype = p.x.dtype;
    HalideBuffer bias(p.bias.given() ? p.bias : start);
    const LinearArguments arguments{.x = x.get(),
                                    .weight = weight.get(),
                                    .bias = bias.get(),
                                    .ahead = elements_before_line(p.weight),
                                    .task_tiles = task_tiles,
                                    .out = out.get()};
    return call_kernel(context, variant.kernel, arguments, threads);
}

// Whether a product has one column and many rows: as one row of many columns, with x as the weight, it has the same bits.
bool is_one_column(const Product &p) {
    return p.op.id == OpId::linear && p.columns == 1 && p.weight.rank != packed_rank && p.x.extent[0] * p.x.extent[1] == 1 &&
           p.x.extent[2] > 1 && p.out.stride[2] == 1;
}
Product as_one_row(const Product &p) {
    const std::int64_t rows = p.x.extent[2];
    Product row = p;
    row.x = as_rank4(p.weight, false);
    row.weight.extent[0] = rows, row.weight.stride[0] = p.x.stride[2];
    move_to(row.weight, p.x.data);
    if (p.bias.given()) row.bias.extent[0] = rows, row.bias.stride[0] = 0;
    row.out.extent[2] = 1, row.out.extent[3] = rows, row.out.stride[3] = 1;
    row.columns = rows;
    return row;
}

bool has_32_bit_places(const Product &p) {
    return attune::has_32_bit_places(p.x) && attune::has_32_bit_places(p.weight) && attune::has_32_bit_places(p.out);
}

// Rows of a layer, or entries of a dimension before the rows.
Product entries_of(const Product &p, int dimension, std::int64_t first, std::int64_t count) {
    Product part = p;
    part.x = part_of(p.x, dimension, first, count), part.out = part_of(p.out, dimension, first, count);
    return part;
}

bool takes_amx(const ProductChoice &choice) {
    const auto of_amx = [](const VariantRecord *v) { return v && multiplies_amx_tiles(*v); };
    return of_amx(choice.variants.variant) || of_amx(choice.variants.of_last);
}

Status run_kernels(Context::State &context, const Product &p, const ProductChoice &choice) {
    const std::int64_t first = choice.first_columns;
    if (first == p.columns) return run_kernel(context, p, *choice.variants.variant);
    if (Status s = run_kernel(context, columns_of(p, 0, first), *choice.variants.variant); !s.ok()) return s;
    return run_kernel(context, columns_of(p, first, p.columns - first), *choice.variants.of_last);
}

// Kernels of AMX index with 32 bits: larger products are cut in halves, by columns where the weight is too large, else by rows
// or entries. A row keeps its bits; fewer columns may have another variant, of the same order of sums.
Status run_in_parts(Context::State &context, const Product &p, const ProductChoice &choice) {
    if (!takes_amx(choice) || has_32_bit_places(p)) return run_kernels(context, p, choice);
    const bool by_columns = !attune::has_32_bit_places(p.weight);
    const int dimension = std::max({0, 1, 2}, [&](int a, int b) { return p.x.extent[a] < p.x.extent[b]; });
    const std::int64_t multiple = by_columns && p.weight.rank == packed_rank ? packed_columns : 1;
    const std::int64_t extent = by_columns ? p.columns : p.x.extent[dimension];
    const std::int64_t half = ceil_div(ceil_div(extent, 2), multiple) * multiple;
    for (const auto &[first, count] : {std::pair(std::int64_t(0), half), {half, extent - half}}) {
        const Product part = by_columns ? columns_of(p, first, count) : entries_of(p, dimension, first, count);
        ProductChoice of_part = choice;
        if (by_columns)
            if (Status s = choose_for(p.op, problem_of(part), {}, of_part); !s.ok()) return s;
        if (Status s = run_in_parts(context, part, of_part); !s.ok()) return s;
    }
    return {};
}

// Refuses a weight with a column, or a panel, that kernels of AMX cannot index; where the variant is forced, a weight that they
// cannot index as a whole.
Status check_parts(const Product &p, bool forced) {
    ConstView least = p.weight;
    if (!forced) least.extent[0] = 1;
    const NamedView places[] = {{"weight", least}};
    return check_32_bit_places(places, kernels_of_amx);
}

}  // namespace

std::string product_sizes_text(const Product &p) {
    return "entries " + text(p.out.extent[0] * p.out.extent[1]) + " rows " + text(p.out.extent[2]) + " columns " +
           text(p.columns) + " depth " + text(p.depth);
}

Status choose_product(const Context::State &context, std::string_view variant, ProductCall &call) {
    const Forced forced = forced_variant(context, variant, call.given.op);
    call.computed = forced.name.empty() && is_one_column(call.given) ? as_one_row(call.given) : call.given;
    if (Status s = choose_for(call.computed.op, problem_of(call.computed), forced, call.choice); !s.ok()) return s;
    return takes_amx(call.choice) ? check_parts(call.computed, !forced.name.empty()) : Status();
}

Status run_product(Context::State &context, const ProductCall &call, CallStart start, std::string_view why_here) {
    const Product &p = call.given;
    Choice choice = call.choice.variants;
    const std::int64_t entries = p.out.extent[0] * p.out.extent[1], rows = p.out.extent[2];
    if (entries == 0 || rows == 0) {
        choice = {nullptr, "no rows"};
    } else if (p.depth == 0) {
        fill_zeros(p.out);
        choice = {nullptr, "sums of nothing"};
    } else if (Status s = run_in_parts(context, call.computed, call.choice); !s.ok()) {
        return s;
    }
    if (!why_here.empty()) choice.reason = why_here;
    record_call(context, choice, p.op.name, start, [&] { return product_sizes_text(p); });
    record_shape(context, start, [&] {
        if (p.op.id == OpId::batch_dot)
            return ShapeLine{.op = p.op.name,
                             .dtype = p.x.dtype,
                             .b = p.x.extent[0],
                             .h = p.x.extent[1],
                             .q = rows,
                             .k = p.depth,
                             .dv = p.columns};
        return ShapeLine{.op = p.op.name, .dtype = p.x.dtype, .b = entries, .q = rows, .d = p.depth, .dv = p.columns};
    });
    return {};
}

}  // namespace attune
