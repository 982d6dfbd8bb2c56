#include "attune/linear.h"
#include "device/device_call.h"
#include "dispatch/op_call.h"
#include "dispatch/shape_record.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
#include <algorithm>
#include <array>
#include <limits>

namespace attune {
namespace {

// How many elements of each row of the weight lie before the first cache line that begins in it; 0 if rows differ in that.
std::int32_t elements_before_line(const ConstView &weight) {
    constexpr std::int64_t line_bytes = 64;
    const std::int64_t size = size_of(weight.dtype);
    if (weight.stride[weight.rank - 2] * size % line_bytes != 0) return 0;
    const auto address = reinterpret_cast<std::uintptr_t>(weight.data);
    return static_cast<std::int32_t>((line_bytes - static_cast<std::int64_t>(address % line_bytes)) % line_bytes / size);
}

int threads_for(const Product &p, int threads) {
    const double entries = static_cast<double>(p.x.extent[0] * p.x.extent[1]), rows = static_cast<double>(p.x.extent[2]);
    const double weights = static_cast<double>(p.columns) * static_cast<double>(p.depth) * entries;
    return worthwhile_threads(weights * std::max(rows, multiply_adds_of_a_read), threads);
}

// Tiles of rows of a task: as many as the variant takes, or fewer, so that each thread has some tasks, all nearly as long. To pack
// weights for a task takes as long as to multiply eight rows by them.
std::int32_t tiles_of_task(const Product &p, const VariantRecord &variant, int threads) {
    constexpr std::int64_t tasks_of_a_thread = 4, rows_at_least = 64;
    if (threads == 1) return std::numeric_limits<std::int32_t>::max();
    const std::int64_t tile = number_of(variant, "tile_rows", 1),
                       most = std::max(number_of(variant, "task_rows", 1) / tile, std::int64_t(1));
    const std::int64_t tiles = ceil_div(p.x.extent[2], tile);
    const std::int64_t others = p.x.extent[0] * p.x.extent[1] * ceil_div(p.columns, number_of(variant, "tile_columns", 1));
    const std::int64_t wanted = ceil_div(threads * tasks_of_a_thread, others);
    const std::int64_t at_least = std::min(ceil_div(rows_at_least, tile), most);
    const std::int64_t tasks = ceil_div(tiles, std::clamp(ceil_div(tiles, wanted), at_least, most));
    return static_cast<std::int32_t>(ceil_div(tiles, tasks));
}

Status run_kernel(Context::State &context, const Product &p, const VariantRecord &variant) {
    const int threads = threads_for(p, context.threads);
    const std::int32_t task_tiles = tiles_of_task(p, variant, threads);
    HalideBuffer x(p.x), weight(p.weight), out(p.out);
    if (p.op == "batch_dot") {
        const BatchDotArguments arguments{.a = x.get(), .x = weight.get(), .task_tiles = task_tiles, .out = out.get()};
        return call_kernel(context, variant.kernel, arguments, threads);
    }
    static constexpr double zero = 0;  // all bits are, in f32 too
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

std::string sizes_text(const Product &p) {
    return "entries " + text(p.out.extent[0] * p.out.extent[1]) + " rows " + text(p.out.extent[2]) + " columns " +
           text(p.columns) + " depth " + text(p.depth);
}

Status run_on_device(Context::State &context, const Product &p, const LinearOptions &options, CallStart start) {
    Choice choice = {nullptr, "no rows"};
    constexpr std::int64_t entries_at_most = 65535;  // of the last dimension of a grid
    const std::int64_t entries = p.out.extent[0] * p.out.extent[1];
    if (entries > entries_at_most)
        return unsupported("x", text(entries) + " entries whose rows do not follow each other, more than " +
                                    text(entries_at_most) + " on a device");
    if (entries * p.out.extent[2] != 0) {
        // All sum in the same order, so the choice may depend on anything: the largest tile of which the rows fill half.
        const auto tile = [](const VariantRecord &v) { return number_of(v, "tile_rows", 1); };
        const auto filled = [&](const VariantRecord &v) { return tile(v) <= 2 * p.out.extent[2]; };
        const auto better = [&](const VariantRecord &a, const VariantRecord &b) {
            return filled(a) != filled(b) ? filled(a) : filled(a) ? tile(a) > tile(b) : tile(a) < tile(b);
        };
        const DeviceNeeds needs{p.op, p.x.dtype, [](const VariantRecord &) { return true; }, better,
                                [&] { return sizes_text(p); }};
        if (Status s = choose_on_device(context, needs, options.variant, choice); !s.ok()) return s;
        DeviceCall call(*choice.variant);
        const ConstView no_bias = stand_in(p.x, p.x.dtype, {p.columns});
        const DeviceLinearArguments arguments{.x = call.buffer(p.x),
                                              .weight = call.buffer(p.weight),
                                              .has_bias = p.bias.given(),
                                              .bias = call.buffer(given_or(p.bias, no_bias)),
                                              .out = call.buffer(p.out)};
        arguments.append_to(call.args);
        if (Status s = device_backend()->run(context, call); !s.ok()) return s;
    }
    record_call(context, choice, p.op, start, [&] { return sizes_text(p); });
    return {};
}

// One column of many rows is one row of many columns: x is the weight then. The bits are the same.
bool is_one_column(const Product &p) {
    return p.op == "linear" && p.columns == 1 && p.weight.rank != packed_rank && p.x.extent[0] * p.x.extent[1] == 1 &&
           p.x.extent[2] > 1 && p.out.stride[2] == 1;
}
Product as_one_row(const Product &p) {
    const std::int64_t rows = p.x.extent[2];
    Product row = p;
    row.x = as_rank4(p.weight, false);
    row.weight.extent[0] = rows, row.weight.stride[0] = p.x.stride[2], row.weight.data = p.x.data;
    if (p.bias.given()) row.bias.extent[0] = rows, row.bias.stride[0] = 0;
    row.out.extent[2] = 1, row.out.extent[3] = rows, row.out.stride[3] = 1;
    row.columns = rows;
    return row;
}

Status run_kernels(Context::State &context, const Product &p, const ProductChoice &choice) {
    const std::int64_t first = choice.first_columns;
    if (first == p.columns) return run_kernel(context, p, *choice.variants.variant);
    if (Status s = run_kernel(context, columns_of(p, 0, first), *choice.variants.variant); !s.ok()) return s;
    return run_kernel(context, columns_of(p, first, p.columns - first), *choice.variants.of_last);
}

Status choose(const Context::State &context, std::string_view variant, ProductCall &call) {
    const Forced forced = forced_variant(context, variant, call.given.op);
    call.computed = forced.name.empty() && is_one_column(call.given) ? as_one_row(call.given) : call.given;
    return choose_for(call.computed, forced, call.choice);
}

}  // namespace

Status run_product(Context::State &context, const ProductCall &call, CallStart start, std::string_view why_here) {
    const Product &p = call.given;
    Choice choice = call.choice.variants;
    const std::int64_t entries = p.out.extent[0] * p.out.extent[1], rows = p.out.extent[2];
    if (entries == 0 || rows == 0) {
        choice = {nullptr, "no rows"};
    } else if (p.depth == 0) {
        fill_zeros(p.out);
        choice = {nullptr, "sums of nothing"};
    } else if (Status s = run_kernels(context, call.computed, call.choice); !s.ok()) {
        return s;
    }
    if (!why_here.empty()) choice.reason = why_here;
    record_call(context, choice, p.op, start, [&] { return sizes_text(p); });
    record_shape(context, start, [&] {
        if (p.op == "batch_dot")
            return ShapeLine{.op = p.op,
                             .dtype = p.x.dtype,
                             .b = p.x.extent[0],
                             .h = p.x.extent[1],
                             .q = rows,
                             .k = p.depth,
                             .dv = p.columns};
        return ShapeLine{.op = p.op, .dtype = p.x.dtype, .b = entries, .q = rows, .d = p.depth, .dv = p.columns};
    });
    return {};
}

namespace {

Status check_leading(const ConstView &v, std::string_view name, const ConstView &x, std::string_view x_name, int count) {
    for (int n = 0; n < count; n++)
        if (Status s = check_extent(name, "extent " + text(n), v.extent[n], x_name, x.extent[n]); !s.ok()) return s;
    return {};
}

Status check_rank(std::string_view name, int given, std::string_view other, int expected) {
    if (given == expected) return {};
    return invalid(name, "rank is " + text(given) + ", that of " + std::string(other) + " is " + text(expected));
}

Status check_linear(const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out, Product &p) {
    if (x.rank < 1 || x.rank > max_rank) return invalid("x", "rank must be from 1 to 4, got " + text(x.rank));
    if (Status s = check_rows("x", x); !s.ok()) return s;
    const bool packed = weight.rank == packed_rank;
    if (weight.rank != 2 && !packed) return invalid("weight", "rank must be 2 (N, K) or 3 (packed), got " + text(weight.rank));
    if (packed) {
        if (Status s = check_rows("weight", weight, "x", x.dtype); !s.ok()) return s;
    } else {
        if (Status s = check_weight("weight", weight, "x", x); !s.ok()) return s;
        if (Status s = check_bias("bias", bias, "weight", weight); !s.ok()) return s;
    }
    if (Status s = check_rank("out", out.rank, "x", x.rank); !s.ok()) return s;
    if (Status s = check_rows("out", out, "x", x.dtype); !s.ok()) return s;
    if (Status s = check_leading(out, "out", x, "x", x.rank - 1); !s.ok()) return s;
    const std::int64_t columns = out.extent[out.rank - 1], depth = x.extent[x.rank - 1];
    if (packed) {
        if (Status s = check_packed_extents("weight", weight, columns, depth); !s.ok()) return s;
        ConstView unpacked = weight;  // the same weight (N, K)
        unpacked.extent[0] = columns;
        if (Status s = check_bias("bias", bias, "out", unpacked); !s.ok()) return s;
    } else if (columns != weight.extent[0]) {
        return invalid("out",
                       "last extent is " + text(columns) + ", the number of rows of weight is " + text(weight.extent[0]));
    }
    const std::array<NamedView, 3> inputs{{{"x", x}, {"weight", weight}, {"bias", bias}}};
    const std::array<NamedView, 1> outputs{{{"out", out}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    p = {packed ? "linear_packed" : "linear", as_rank4(x, false), weight, bias, as_rank4(out, false), columns, depth};
    join_rows(p.x, p.out);  // no row knows of another, and a register tile may hold rows of several entries
    return {};
}

// The middle extent of a product of matrices may be 0, unlike the last of any other view.
Status check_matrices(std::string_view name, const ConstView &v, const ConstView &a) {
    if (Status s = check_real(name, v); !s.ok()) return s;
    if (Status s = check_same_type(name, v.dtype, "a", a.dtype); !s.ok()) return s;
    if (Status s = check_memory(name, v); !s.ok()) return s;
    return check_dense(name, v);
}

Status check_batch_dot(const ConstView &a, const ConstView &x, const View &out, Product &p) {
    const int rank = a.rank;
    if (rank < 2 || rank > max_rank) return invalid("a", "rank must be from 2 to 4, got " + text(rank));
    if (Status s = check_matrices("a", a, a); !s.ok()) return s;
    if (Status s = check_rank("x", x.rank, "a", rank); !s.ok()) return s;
    if (Status s = check_matrices("x", x, a); !s.ok()) return s;
    if (x.extent[rank - 1] < 1) return invalid("x", "last extent must be at least 1, got " + text(x.extent[rank - 1]));
    if (Status s = check_leading(x, "x", a, "a", rank - 2); !s.ok()) return s;
    if (x.extent[rank - 2] != a.extent[rank - 1])
        return invalid("x", "number of rows is " + text(x.extent[rank - 2]) + ", the last extent of a is " +
                                text(a.extent[rank - 1]));
    if (Status s = check_rank("out", out.rank, "a", rank); !s.ok()) return s;
    if (Status s = check_rows("out", out, "a", a.dtype); !s.ok()) return s;
    if (Status s = check_leading(out, "out", a, "a", rank - 1); !s.ok()) return s;
    if (Status s = check_extent("out", "last extent", out.extent[rank - 1], "x", x.extent[rank - 1]); !s.ok()) return s;
    const std::array<NamedView, 2> inputs{{{"a", a}, {"x", x}}};
    const std::array<NamedView, 1> outputs{{{"out", out}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    p = {"batch_dot", as_rank4(a, false), as_rank4(x, false), {}, as_rank4(out, false), x.extent[rank - 1], a.extent[rank - 1]};
    return {};
}

Status linear_on_device(Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias,
                        const View &out, const LinearOptions &options) {
    const CallStart start = start_of_call();
    const std::array<NamedView, 3> others{{{"weight", weight}, {"bias", bias}, {"out", out}}};
    if (Status s = check_places(others, "x"); !s.ok()) return s;
    if (weight.rank == packed_rank) return unsupported("weight", "a packed one is not multiplied on a device");
    Product p;
    if (Status s = check_linear(as_host(x), as_host(weight), as_host(bias), as_host(out), p); !s.ok()) return s;
    if (x.dtype == DType::f64) return unsupported("x", "there are no kernels for f64 on a device");
    return run_on_device(context, p, options, start);
}

Status linear_here(Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out,
                   const LinearOptions &options, std::string_view why_here) {
    const CallStart start = start_of_call();
    ProductCall call;
    if (Status s = prepare_linear(context, x, weight, bias, out, options.variant, call); !s.ok()) return s;
    return run_product(context, call, start, why_here);
}

}  // namespace

Status prepare_linear(const Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias,
                      const View &out, std::string_view variant, ProductCall &call) {
    if (Status s = check_linear(x, weight, bias, out, call.given); !s.ok()) return s;
    return choose(context, variant, call);
}

Status prepare_batch_dot(const Context::State &context, const ConstView &a, const ConstView &x, const View &out,
                         std::string_view variant, ProductCall &call) {
    if (Status s = check_batch_dot(a, x, out, call.given); !s.ok()) return s;
    return choose(context, variant, call);
}

Status linear(Context &context, const ConstView &x, const ConstView &weight, const ConstView &bias, const View &out,
              const LinearOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &a, const ConstView &w, const ConstView &b,
                          const View &o) -> Status {
        if (a.place != Place::device) return linear_here(state, a, w, b, o, options, {});
        std::string instead;
        if (Status s = find_device(state, "x", instead); !s.ok()) return s;
        if (instead.empty()) return linear_on_device(state, a, w, b, o, options);
        return linear_here(state, as_host(a), as_host(w), as_host(b), as_host(o), options, instead);
    };
    return answer(context, body, x, weight, bias, out);
}

Status batch_dot(Context &context, const ConstView &a, const ConstView &x, const View &out,
                 const LinearOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &left, const ConstView &right, const View &o) -> Status {
        const CallStart start = start_of_call();
        ProductCall call;
        if (Status s = prepare_batch_dot(state, left, right, o, options.variant, call); !s.ok()) return s;
        return run_product(state, call, start);
    };
    return answer(context, body, a, x, out);
}

}  // namespace attune
