// SPDX-License-Identifier: MIT
#include "attune/half.h"
#include "dispatch/op_call.h"
#include "dispatch/shape_record.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "layers/linear_backward_call.h"
#include <array>
#include <cstring>
#include <optional>

namespace attune {
namespace {

constexpr const Op &weight_op = ops::transposed_dot, &x_op = ops::batch_dot;

// Checks each view alone; check_extents_agree() compares them.
Status check_views(const ConstView &x, const ConstView &weight, const ConstView &grad_out, const LinearGradients &g) {
    if (grad_out.rank < 1 || grad_out.rank > max_rank)
        return invalid("grad_out", "rank must be from 1 to 4, got " + text(grad_out.rank));
    if (Status s = check_rows("grad_out", grad_out); !s.ok()) return s;
    struct Argument {
        std::string_view name;
        ConstView view;
        int rank;
        std::string_view why, needed_for;
    };
    const std::string_view x_for = g.weight.given() ? "gradients.weight" : "", weight_for = g.x.given() ? "gradients.x" : "";
    const Argument arguments[] = {{"x", x, grad_out.rank, ", that of grad_out", x_for},
                                  {"weight", weight, 2, " (N, K)", weight_for},
                                  {"gradients.x", g.x, grad_out.rank, ", that of grad_out", {}},
                                  {"gradients.weight", g.weight, 2, " (N, K)", {}},
                                  {"gradients.bias", g.bias, 1, " (N)", {}}};
    for (const Argument &a : arguments) {
        if (!a.view.given()) {
            if (!a.needed_for.empty()) return invalid(a.name, "must be given for " + std::string(a.needed_for));
            continue;
        }
        if (a.view.rank != a.rank)
            return invalid(a.name, "rank must be " + text(a.rank) + std::string(a.why) + ", got " + text(a.view.rank));
        if (Status s = check_rows(a.name, a.view, "grad_out", grad_out.dtype); !s.ok()) return s;
    }
    return {};
}

Status check_extents_agree(const ConstView &x, const ConstView &weight, const ConstView &grad_out, const LinearGradients &g,
                           LinearBackwardCall &call) {
    const int last = grad_out.rank - 1;
    call.columns = grad_out.extent[last];
    for (const auto &[name, view] : {NamedView{"x", x}, NamedView{"gradients.x", g.x}})
        for (int n = 0; view.given() && n < last; n++)
            if (Status s = check_extent(name, "extent " + text(n), view.extent[n], "grad_out", grad_out.extent[n]); !s.ok())
                return s;
    for (const auto &[name, view] :
         {NamedView{"weight", weight}, NamedView{"gradients.weight", g.weight}, NamedView{"gradients.bias", g.bias}})
        if (view.given() && view.extent[0] != call.columns)
            return invalid(name, "first extent is " + text(view.extent[0]) + ", the last extent of grad_out is " +
                                     text(call.columns));
    // K is the width of the first view that is given.
    std::string_view of;
    for (const auto &[name, view] : {NamedView{"x", x}, NamedView{"weight", weight}, NamedView{"gradients.x", g.x},
                                     NamedView{"gradients.weight", g.weight}}) {
        if (!view.given()) continue;
        if (of.empty()) of = name, call.depth = view.extent[view.rank - 1];
        if (Status s = check_extent(name, "width (last extent)", view.extent[view.rank - 1], of, call.depth); !s.ok()) return s;
    }
    const std::array<NamedView, 3> inputs{{{"x", x}, {"weight", weight}, {"grad_out", grad_out}}};
    const std::array<NamedView, 3> outputs{{{"gradients.x", g.x}, {"gradients.weight", g.weight}, {"gradients.bias", g.bias}}};
    return check_overlaps(inputs, outputs);
}

// All rows of a view of rank 4 as one matrix (1, 1, M, width): the same memory, or a copy where strides do not allow that.
class Matrix {
public:
    Status prepare(Context::State &context, const ConstView &v) {
        view_ = v;
        join_rows(view_);
        if (view_.extent[0] == 1 && view_.extent[1] == 1) return {};
        const std::int64_t rows = v.extent[0] * v.extent[1] * v.extent[2], width = v.extent[3], size = size_of(v.dtype);
        memory_.emplace(*context.scratch, static_cast<std::size_t>(rows * width * size));
        char *to = static_cast<char *>(memory_->data());
        if (!to) return no_memory();
        move_to(view_, to);
        for (std::int64_t b = 0; b < v.extent[0]; b++)
            for (std::int64_t h = 0; h < v.extent[1]; h++)
                for (std::int64_t i = 0; i < v.extent[2]; i++, to += width * size)
                    std::memcpy(
                        to, static_cast<const char *>(v.data) + (b * v.stride[0] + h * v.stride[1] + i * v.stride[2]) * size,
                        static_cast<std::size_t>(width * size));
        view_.extent[0] = view_.extent[1] = 1, view_.extent[2] = rows;
        view_.stride[0] = view_.stride[1] = 0, view_.stride[2] = width, view_.stride[3] = 1;
        return {};
    }
    const ConstView &view() const { return view_; }

private:
    ConstView view_;
    std::optional<ScratchBlock> memory_;
};

// A row of ones with stride 0: one element in memory stands for `count` of them.
ConstView ones(DType type, std::int64_t count) {
    static constexpr float f32 = 1;
    static constexpr double f64 = 1;
    static constexpr bfloat16 bf16 = to_bfloat16(1);
    static constexpr float16 f16 = to_float16(1);
    const void *one = &f32;
    if (type == DType::f64) one = &f64;
    if (type == DType::bf16) one = &bf16;
    if (type == DType::f16) one = &f16;
    ConstView v(static_cast<const float *>(one), {1, 1, count, 1}, {0, 0, 0, 1});
    v.dtype = type;
    return v;
}

// Chooses the kernel of a^T x for `rows` columns of a and `columns` of x. All classes sum in the same order, so the choice may
// depend on any size.
Status choose_transposed_dot(DType type, std::int64_t rows, std::int64_t columns, const Forced &forced, Choice &choice) {
    constexpr std::int64_t tile_bytes = 256, tile_rows = 64;
    const std::int64_t tile_columns = tile_bytes / size_of(sum_type(type));
    const bool one_tile = rows <= tile_rows && columns <= tile_columns && rows > 1;
    std::vector<Candidate> candidates;
    if (one_tile || columns <= tile_columns / 2) candidates.push_back({Schedule::panels, "narrow", "few tiles"});
    candidates.insert(candidates.end(),
                      {{Schedule::panels, "many_rows", "many tiles"}, {Schedule::root, "", "nothing else is built"}});
    return choose_variant({.op = weight_op, .dtype = type}, candidates, forced, choice);
}

// out = a^T x, for matrices of rank 4.
Status transposed_dot(Context::State &context, const ConstView &a, const ConstView &x, const View &out, Choice &choice) {
    const std::int64_t rows = a.extent[3], columns = x.extent[3], depth = a.extent[2];
    if (depth == 0) {
        fill_zeros(out);
        choice = {nullptr, "sums of nothing"};
        return {};
    }
    HalideBuffer left(a), right(x), result(out);
    const TransposedDotArguments arguments{.a = left.get(), .x = right.get(), .out = result.get()};
    const double multiply_adds = static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth);
    return call_kernel(context, choice.variant->kernel, arguments, worthwhile_threads(multiply_adds, context.threads));
}

Status prepare_gradient_of_x(const Context::State &context, const ConstView &grad_out, const ConstView &weight, const View &out,
                             std::string_view variant, ProductCall &product) {
    ConstView rows = grad_out, matrix = as_rank4(weight, false);
    View result = out;
    join_rows(rows, result);
    for (int n = 0; n < 2; n++) matrix.extent[n] = rows.extent[n], matrix.stride[n] = 0;
    return prepare_batch_dot(context, rows, matrix, result, variant, product);
}

Status run_sums(Context::State &context, const LinearBackwardCall &call, Choice &recorded) {
    const LinearGradients &g = call.gradients;
    Choice of_weight = call.weight, of_bias = call.bias;
    Matrix left, right;
    if (Status s = left.prepare(context, call.grad_out); !s.ok()) return s;
    if (g.weight.given()) {
        if (Status s = right.prepare(context, call.x); !s.ok()) return s;
        if (Status s = transposed_dot(context, left.view(), right.view(), as_rank4(g.weight, false), of_weight); !s.ok())
            return s;
    }
    if (g.bias.given()) {
        const ConstView sum = ones(call.grad_out.dtype, left.view().extent[2]);
        if (Status s = transposed_dot(context, sum, left.view(), as_rank4(g.bias, false), of_bias); !s.ok()) return s;
    }
    recorded = g.weight.given() ? of_weight : of_bias;
    return {};
}

}  // namespace

Status prepare_linear_backward(const Context::State &context, const ConstView &x, const ConstView &weight,
                               const ConstView &grad_out, const LinearGradients &g, std::string_view variant,
                               LinearBackwardCall &call) {
    if (Status s = check_views(x, weight, grad_out, g); !s.ok()) return s;
    if (Status s = check_extents_agree(x, weight, grad_out, g, call); !s.ok()) return s;
    const bool sums = g.weight.given() || g.bias.given();
    const VariantRecord *named = find_variant(variant);
    const bool of_x = named && named->op == x_op.name;
    if (of_x && !g.x.given()) return invalid("variant", std::string(variant) + " computes gradients.x, which is not given");
    if (!variant.empty() && !of_x && !sums)
        return invalid("variant", std::string(variant) + " needs gradients.weight or gradients.bias, which are not given");
    const Forced forced = forced_variant(context, of_x ? std::string_view() : variant, weight_op);
    if (g.weight.given())
        if (Status s = choose_transposed_dot(grad_out.dtype, call.columns, call.depth, forced, call.weight); !s.ok()) return s;
    if (g.bias.given())
        if (Status s = choose_transposed_dot(grad_out.dtype, 1, call.columns, forced, call.bias); !s.ok()) return s;
    call.grad_out = as_rank4(grad_out, false);
    if (x.given()) call.x = as_rank4(x, false);
    call.gradients = g;
    call.records_x = of_x || !sums;
    if (!g.x.given()) return {};
    return prepare_gradient_of_x(context, call.grad_out, weight, as_rank4(g.x, false), of_x ? variant : std::string_view(),
                                 call.of_x);
}

Status run_linear_backward(Context::State &context, const LinearBackwardCall &call, CallStart start) {
    const LinearGradients &g = call.gradients;
    Choice choice{nullptr, "nothing asked for"};
    if (g.weight.given() || g.bias.given())
        if (Status s = run_sums(context, call, choice); !s.ok()) return s;
    if (g.x.given()) {
        if (Status s = run_product(context, call.of_x, start_of_call()); !s.ok()) return s;
        if (call.records_x) choice = {find_variant(context.last_name), "gradients.x"};
    }
    const std::int64_t *n = call.grad_out.extent, rows = n[0] * n[1] * n[2];
    record_call(context, choice, "linear_backward", start,
                [&] { return "rows " + text(rows) + " columns " + text(call.columns) + " depth " + text(call.depth); });
    record_shape(context, start, [&] {
        return ShapeLine{.op = "linear_backward",
                         .dtype = call.grad_out.dtype,
                         .q = rows,
                         .d = call.depth,
                         .dv = call.columns,
                         .exact = g.x.given() && g.weight.given() && g.bias.given()};
    });
    return {};
}

Status linear_backward(Context &context, const ConstView &x, const ConstView &weight, const ConstView &grad_out,
                       const LinearGradients &gradients, const LinearOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &rows, const ConstView &w, const ConstView &grad,
                          const LinearGradients &wanted) -> Status {
        const CallStart start = start_of_call();
        LinearBackwardCall call;
        if (Status s = prepare_linear_backward(state, rows, w, grad, wanted, options.variant, call); !s.ok()) return s;
        return run_linear_backward(state, call, start);
    };
    return answer(context, body, x, weight, grad_out, gradients);
}

}  // namespace attune
