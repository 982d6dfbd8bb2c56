// SPDX-License-Identifier: MIT
#include "kernel_arguments.h"
#include "serving/store_rows.h"
#include "tensors/checks.h"
#include <array>

namespace attune {
namespace {

struct BackwardCall {
    ConstView x, grad_out;  // (B, H, T, D)
    View grad_x;
    View grad_weight;  // (H, D), (1, D), or without elements
    StepsOfRows steps;
};

Status check(const ConstView &x, const ConstView &positions, const ConstView &grad_out, const View &grad_x,
             const View &grad_weight, const RowSteps &steps, BackwardCall &c) {
    if (Status s = check_rows("x", x, 4); !s.ok()) return s;
    for (const auto &[name, v] : {std::pair("grad_out", grad_out), {"grad_x", ConstView(grad_x)}}) {
        if (v.rank != x.rank) return invalid(name, "rank is " + text(v.rank) + ", that of x is " + text(x.rank));
        if (Status s = check_rows(name, v, 4); !s.ok()) return s;
        if (Status s = check_same_type(name, v.dtype, "x", x.dtype); !s.ok()) return s;
        for (int n = 0; n < x.rank; n++)
            if (Status s = check_extent(name, "extent " + text(n), v.extent[n], "x", x.extent[n]); !s.ok()) return s;
    }
    c.x = as_rows_of_heads(x), c.grad_out = as_rows_of_heads(grad_out), c.grad_x = as_rows_of_heads(grad_x);
    if (Status s = check_steps("", steps, c.x, c.steps); !s.ok()) return s;
    if (Status s = check_positions("positions", positions, x.rank == 3 ? "(T)" : "(B, S)", c.x, false, c.steps); !s.ok())
        return s;
    const DType sum = sum_type(x.dtype);
    if (grad_weight.given()) {
        const ConstView &weight = steps.norm_weight;
        if (!weight.given()) return invalid("grad_weight", "is given without norm_weight");
        if (grad_weight.rank != weight.rank)
            return invalid("grad_weight",
                           "rank is " + text(grad_weight.rank) + ", that of norm_weight is " + text(weight.rank));
        if (grad_weight.dtype != sum)
            return invalid("grad_weight", std::string("type must be ") + name_of(sum) + " where x is " + name_of(x.dtype) +
                                              ", got " + name_of(grad_weight.dtype));
        if (Status s = check_memory("grad_weight", grad_weight); !s.ok()) return s;
        if (Status s = check_dense("grad_weight", grad_weight); !s.ok()) return s;
        for (int n = 0; n < weight.rank; n++)
            if (Status s =
                    check_extent("grad_weight", "extent " + text(n), grad_weight.extent[n], "norm_weight", weight.extent[n]);
                !s.ok())
                return s;
    }
    const std::array<NamedView, 6> inputs{{{"x", x},
                                           {"grad_out", grad_out},
                                           {"positions", positions},
                                           {"norm_weight", steps.norm_weight},
                                           {"rope.cos", steps.rope.cos},
                                           {"rope.sin", steps.rope.sin}}};
    const std::array<NamedView, 2> outputs{{{"grad_x", grad_x}, {"grad_weight", grad_weight}}};
    if (Status s = check_overlaps(inputs, outputs); !s.ok()) return s;
    View &w = c.grad_weight = grad_weight;
    if (!w.given()) {
        static double none;  // not written
        w = View(&none, {0, 0});
        w.dtype = sum;
    } else if (w.rank == 1) {
        w.rank = 2;
        w.extent[1] = w.extent[0], w.stride[1] = w.stride[0];
        w.extent[0] = 1, w.stride[0] = w.extent[1];
    }
    return {};
}

Status run_kernel(Context::State &context, const BackwardCall &c, const VariantRecord &variant) {
    const StepTables tables(context, c.steps, c.x);
    if (!tables.status.ok()) return tables.status;
    StepInputs steps(c.steps, tables, c.x);
    HalideBuffer x(c.x), grad_out(c.grad_out), grad_x(c.grad_x), grad_weight(c.grad_weight);
    const TransformRowsBackwardArguments arguments{
        .x = x.get(),
        .grad_out = grad_out.get(),
        .positions = steps.positions.get(),
        .cos = steps.cos.get(),
        .sin = steps.sin.get(),
        .norm_weight = steps.norm_weight.get(),
        .norm_weight_f32 = steps.norm_weight_f32.get(),
        .has_norm = steps.has_norm,
        .weight_is_f32 = steps.weight_is_f32,
        .norm_eps = steps.norm_eps,
        .hadamard_factor = steps.hadamard_factor,
        .halves = steps.halves,
        .neighbours = steps.neighbours,
        .first_rotated = steps.first_rotated,
        .butterflies = steps.butterflies,
        .half_block = steps.half_block,
        .heads_of_weight = static_cast<std::int32_t>(c.grad_weight.extent[0] == 1 ? c.x.extent[1] : 1),
        .grad_x = grad_x.get(),
        .grad_weight = grad_weight.get()};
    return call_kernel(context, variant.kernel, arguments, threads_of_rows(context, c.x));
}

Status backward(Context::State &context, const ConstView &x, const ConstView &positions, const ConstView &grad_out,
                const View &grad_x, const View &grad_weight, const RowSteps &steps) {
    const CallStart start = start_of_call();
    BackwardCall c;
    if (Status s = check(x, positions, grad_out, grad_x, grad_weight, steps, c); !s.ok()) return s;
    Choice choice;
    if (Status s = choose_rows(context, ops::transform_rows_backward, x.dtype, choice); !s.ok()) return s;
    if (elements_of(c.x) == 0) {
        View zeros = as_rank4(c.grad_weight, false);
        fill_zeros(zeros);
        choice = {nullptr, "no rows"};
    } else if (Status s = run_kernel(context, c, *choice.variant); !s.ok()) {
        return s;
    }
    record_call(context, choice, ops::transform_rows_backward.name, start, [&] {
        const std::int64_t *n = c.x.extent;
        return "b " + text(n[0]) + " h " + text(n[1]) + " t " + text(n[2]) + " d " + text(n[3]);
    });
    return {};
}

}  // namespace

Status transform_rows_backward(Context &context, const ConstView &x, const ConstView &positions, const ConstView &grad_out,
                               const View &grad_x, const View &grad_weight, const RowSteps &steps) noexcept {
    const auto body = [](Context::State &state, const ConstView &rows, const ConstView &at, const ConstView &grad,
                         const View &gx, const View &gw,
                         const RowSteps &how) { return backward(state, rows, at, grad, gx, gw, how); };
    return answer(context, body, x, positions, grad_out, grad_x, grad_weight, steps);
}

}  // namespace attune
