// SPDX-License-Identifier: MIT
// Products with a matrix of tensors on a device.
#include "device/device_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
#include "layers/product_cost.h"
#include <algorithm>
#include <array>

namespace attune {
namespace {

Status choose(const Context::State &context, const Product &p, std::string_view variant, Choice &choice) {
    constexpr std::int64_t entries_at_most = 65535;  // blocks in the last dimension of a CUDA grid
    const std::int64_t entries = p.out.extent[0] * p.out.extent[1];
    if (entries > entries_at_most)
        return unsupported("x", text(entries) + " entries whose rows do not follow each other, more than " +
                                    text(entries_at_most) + " on a device");
    choice = {nullptr, "no rows"};
    if (entries * p.out.extent[2] == 0) return {};
    // All variants sum in the same order: the choice may depend on any size.
    const ProductProblem sizes{.dtype = p.x.dtype,
                               .entries = entries,
                               .rows = p.out.extent[2],
                               .columns = std::max(p.columns, std::int64_t(1)),
                               .depth = std::max(p.depth, std::int64_t(1))};
    const DeviceNeeds needs{.op = p.op,
                            .dtype = p.x.dtype,
                            .sizes = [&] { return product_sizes_text(p); },
                            .order = [&](const Runnable &v) { return predicted_ns(v, product_terms(sizes, v)); },
                            .predicted = true};
    return choose_on_device(context, needs, variant, choice);
}

}  // namespace

Status prepare_linear_on_device(const Context::State &context, const ConstView &x, const ConstView &weight,
                                const ConstView &bias, const View &out, std::string_view variant, DeviceProduct &product) {
    if (weight.rank == packed_rank) return unsupported("weight", "a packed one is not multiplied on a device");
    if (Status s = check_linear(x, weight, bias, out, product.given); !s.ok()) return s;
    const std::array<NamedView, 4> all{{{"x", x}, {"weight", weight}, {"bias", bias}, {"out", out}}};
    if (Status s = check_32_bit_places(all, kernels_for_a_device); !s.ok()) return s;
    if (x.dtype == DType::f64) return unsupported("x", "there are no kernels for f64 on a device");
    return choose(context, product.given, variant, product.choice);
}

Status run_product_on_device(Context::State &context, const DeviceProduct &product, CallStart start) {
    const Product &p = product.given;
    if (product.choice.variant) {
        DeviceCall call(*product.choice.variant);
        const ConstView no_bias = stand_in(p.x, p.x.dtype, {p.columns});
        const DeviceLinearArguments arguments{.x = call.buffer(p.x),
                                              .weight = call.buffer(p.weight),
                                              .has_bias = p.bias.given(),
                                              .bias = call.buffer(given_or(p.bias, no_bias)),
                                              .out = call.buffer(p.out)};
        arguments.append_to(call.args);
        if (Status s = queue(context, call); !s.ok()) return s;
    }
    record_call(context, product.choice, p.op.name, start, [&] { return product_sizes_text(p); });
    return {};
}

}  // namespace attune
