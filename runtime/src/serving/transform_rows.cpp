// SPDX-License-Identifier: MIT
#include "serving/rows_device.h"
#include "serving/store_rows.h"
#include "tensors/checks.h"
#include "tensors/overlap.h"
#include <array>

namespace attune {

Status check_rows(std::string_view name, const ConstView &rows, int most_rank) {
    if (rows.rank != 3 && (most_rank == 3 || rows.rank != 4))
        return invalid(name, std::string("rank must be 3 (T, H, D)") + (most_rank == 4 ? " or 4 (B, H, S, D)" : "") + ", got " +
                                 text(rows.rank));
    if (Status s = check_real(name, rows); !s.ok()) return s;
    if (Status s = check_memory(name, rows); !s.ok()) return s;
    if (rows.extent[rows.rank - 1] < 1)
        return invalid(name, "last extent must be at least 1, got " + text(rows.extent[rows.rank - 1]));
    return check_dense(name, rows);
}

namespace {

struct TransformCall {
    ConstView x;  // (B, H, T, D)
    View out;
    StepsOfRows steps;
};

Status check(const ConstView &x, const ConstView &positions, const View &out, const RowSteps &steps, bool on_device,
             TransformCall &c) {
    if (Status s = check_rows("x", x, 4); !s.ok()) return s;
    if (Status s = check_rows("out", out, 4); !s.ok()) return s;
    if (out.rank != x.rank) return invalid("out", "rank is " + text(out.rank) + ", that of x is " + text(x.rank));
    if (Status s = check_same_type("out", out.dtype, "x", x.dtype); !s.ok()) return s;
    for (int n = 0; n < x.rank; n++)
        if (Status s = check_extent("out", "extent " + text(n), out.extent[n], "x", x.extent[n]); !s.ok()) return s;
    c.x = as_rows_of_heads(x), c.out = as_rows_of_heads(out);
    if (Status s = check_steps("", steps, c.x, c.steps); !s.ok()) return s;
    if (Status s = check_positions("positions", positions, x.rank == 3 ? "(T)" : "(B, S)", c.x, on_device, c.steps); !s.ok())
        return s;
    const std::array<NamedView, 5> inputs{{{"x", same_memory(x, out) ? ConstView() : x},
                                           {"positions", positions},
                                           {"norm_weight", steps.norm_weight},
                                           {"rope.cos", steps.rope.cos},
                                           {"rope.sin", steps.rope.sin}}};
    const std::array<NamedView, 1> outputs{{{"out", out}}};
    return check_overlaps(inputs, outputs);
}

std::string sizes_text(const TransformCall &c) {
    const std::int64_t *n = c.x.extent;
    return "b " + text(n[0]) + " h " + text(n[1]) + " t " + text(n[2]) + " d " + text(n[3]);
}

Status transform_on_device(Context::State &context, const ConstView &x, const ConstView &positions, const View &out,
                           const RowSteps &steps) {
    const CallStart start = start_of_call();
    const NamedView all[] = {{"x", x},
                             {"positions", positions},
                             {"out", out},
                             {"norm_weight", steps.norm_weight},
                             {"rope.cos", steps.rope.cos},
                             {"rope.sin", steps.rope.sin}};
    if (Status s = check_places(all, "x"); !s.ok()) return s;
    TransformCall c;
    if (Status s = check(as_host(x), as_host(positions), as_host(out), as_host(steps), true, c); !s.ok()) return s;
    if (Status s = check_rows_on_device("x", "", c.x, c.steps, all); !s.ok()) return s;
    Choice choice;
    const DeviceRows rows{.x = c.x, .steps = c.steps};
    if (Status s = choose_rows_on_device(context, ops::transform_rows, rows, choice); !s.ok()) return s;
    if (choice.variant)
        if (Status s = store_rows_on_device(context, *choice.variant, rows, c.out); !s.ok()) return s;
    record_call(context, choice, ops::transform_rows.name, start, [&] { return sizes_text(c); });
    return {};
}

Status transform(Context::State &context, const ConstView &x, const ConstView &positions, const View &out,
                 const RowSteps &steps, std::string_view why_here = {}) {
    if (x.place == Place::device) {
        std::string instead;
        if (Status s = find_device(context, "x", instead); !s.ok()) return s;
        if (instead.empty()) return transform_on_device(context, x, positions, out, steps);
        return transform(context, as_host(x), as_host(positions), as_host(out), as_host(steps), instead);
    }
    const CallStart start = start_of_call();
    TransformCall c;
    if (Status s = check(x, positions, out, steps, false, c); !s.ok()) return s;
    Choice choice;
    if (Status s = choose_rows(context, ops::transform_rows, x.dtype, choice); !s.ok()) return s;
    if (elements_of(c.x) == 0) {
        choice = {nullptr, "no rows"};
    } else {
        const StepTables tables(context, c.steps, c.x);
        if (!tables.status.ok()) return tables.status;
        RowPlaces places;
        places.reserve(static_cast<std::size_t>(c.x.extent[0] * c.x.extent[2]));
        for (std::int32_t b = 0; b < c.x.extent[0]; b++)
            for (std::int32_t t = 0; t < c.x.extent[2]; t++) places.push_back({t, b});
        if (Status s = store_rows(context, *choice.variant, c.steps, tables, c.x, places, c.out); !s.ok()) return s;
    }
    if (!why_here.empty()) choice.reason = why_here;
    record_call(context, choice, ops::transform_rows.name, start, [&] { return sizes_text(c); });
    return {};
}

}  // namespace

Status transform_rows(Context &context, const ConstView &x, const ConstView &positions, const View &out,
                      const RowSteps &steps) noexcept {
    const auto body = [](Context::State &state, const ConstView &rows, const ConstView &at, const View &to,
                         const RowSteps &how) { return transform(state, rows, at, to, how); };
    return answer(context, body, x, positions, out, steps);
}

}  // namespace attune
