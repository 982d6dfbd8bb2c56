// SPDX-License-Identifier: MIT
// Products with a matrix of tensors on a device.
#include "device/device_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
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
    // The largest tile that the rows fill by half. All variants sum in the same order: the choice may depend on any size.
    const auto tile = [](const VariantRecord &v) { return parameter_of(v, "tile_rows", 1); };
    const auto filled = [&](const VariantRecord &v) { return tile(v) <= 2 * p.out.extent[2]; };
    const auto better = [&](const VariantRecord &a, const VariantRecord &b) {
        return filled(a) != filled(b) ? filled(a) : filled(a) ? tile(a) > tile(b) : tile(a) < tile(b);
    };
    const DeviceNeeds needs{p.op, p.x.dtype, [](const VariantRecord &) { return true; }, better,
                            [&] { return product_sizes_text(p); }};
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
