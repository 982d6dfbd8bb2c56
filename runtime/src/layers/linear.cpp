// SPDX-License-Identifier: MIT
#include "attune/linear.h"
#include "device/device_call.h"
#include "dispatch/op_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
#include <array>

namespace attune {
namespace {

Status run_on_device(Context::State &context, const Product &p, const LinearOptions &options, CallStart start) {
    Choice choice = {nullptr, "no rows"};
    constexpr std::int64_t entries_at_most = 65535;  // blocks in the last dimension of a CUDA grid
    const std::int64_t entries = p.out.extent[0] * p.out.extent[1];
    if (entries > entries_at_most)
        return unsupported("x", text(entries) + " entries whose rows do not follow each other, more than " +
                                    text(entries_at_most) + " on a device");
    if (entries * p.out.extent[2] != 0) {
        // The largest tile that the rows fill by half. All variants sum in the same order: the choice may depend on any size.
        const auto tile = [](const VariantRecord &v) { return parameter_of(v, "tile_rows", 1); };
        const auto filled = [&](const VariantRecord &v) { return tile(v) <= 2 * p.out.extent[2]; };
        const auto better = [&](const VariantRecord &a, const VariantRecord &b) {
            return filled(a) != filled(b) ? filled(a) : filled(a) ? tile(a) > tile(b) : tile(a) < tile(b);
        };
        const DeviceNeeds needs{p.op, p.x.dtype, [](const VariantRecord &) { return true; }, better,
                                [&] { return product_sizes_text(p); }};
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
    record_call(context, choice, p.op.name, start, [&] { return product_sizes_text(p); });
    return {};
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
    p = {packed ? ops::linear_packed : ops::linear, as_rank4(x, false), weight, bias, as_rank4(out, false), columns, depth};
    join_rows(p.x, p.out);  // a register tile may hold rows of several entries
    return {};
}

Status linear_on_device(Context::State &context, const ConstView &x, const ConstView &weight, const ConstView &bias,
                        const View &out, const LinearOptions &options) {
    const CallStart start = start_of_call();
    const std::array<NamedView, 4> all{{{"x", x}, {"weight", weight}, {"bias", bias}, {"out", out}}};
    if (Status s = check_places(all, "x"); !s.ok()) return s;
    if (weight.rank == packed_rank) return unsupported("weight", "a packed one is not multiplied on a device");
    Product p;
    if (Status s = check_linear(as_host(x), as_host(weight), as_host(bias), as_host(out), p); !s.ok()) return s;
    if (Status s = check_32_bit_places(all, kernels_for_a_device); !s.ok()) return s;
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
    return choose_product(context, variant, call);
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

}  // namespace attune
