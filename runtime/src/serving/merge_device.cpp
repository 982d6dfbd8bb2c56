// SPDX-License-Identifier: MIT
// Merge of attentions on a device: all parts in one kernel, each with the buffers of its own.
#include "device/device_call.h"
#include "kernel_arguments.h"
#include "serving/merge_call.h"

namespace attune {
namespace {

constexpr std::size_t merged_on_device = 8;
constexpr std::int64_t tiles_at_most = 65535;  // blocks in the second dimension of a CUDA grid

Status choose(const Context::State &context, const MergeCall &c, Choice &choice) {
    if (elements_of(c.parts[0].lse) == 0) {
        choice = {nullptr, "no queries"};
        return {};
    }
    const DeviceNeeds needs{ops::merge, c.out.dtype, [&] { return merge_sizes_text(c); }};
    if (Status s = choose_on_device(context, needs, {}, choice); !s.ok()) return s;
    const std::int64_t most = tiles_at_most * parameter_of(*choice.variant, "block_rows", 1);
    if (c.out.extent[2] <= most) return {};
    return unsupported(c.parts[0].name_of_out, text(c.out.extent[2]) + " queries, more than " + text(most) + " on a device");
}

Status run_kernel(Context::State &context, const MergeCall &c, const VariantRecord &variant) {
    DeviceCall call(variant);
    std::array<halide_buffer_t *, merged_on_device> out{}, lse{};
    for (std::size_t n = 0; n < merged_on_device; n++) {
        const Part &part = c.parts[std::min(n, c.parts.size() - 1)];  // beyond the last: of no effect
        out[n] = call.buffer(part.out), lse[n] = call.buffer(part.lse);
    }
    const std::int64_t *extent = c.out.extent;
    const DeviceMergeArguments arguments{.out_0 = out[0],
                                         .out_1 = out[1],
                                         .out_2 = out[2],
                                         .out_3 = out[3],
                                         .out_4 = out[4],
                                         .out_5 = out[5],
                                         .out_6 = out[6],
                                         .out_7 = out[7],
                                         .lse_0 = lse[0],
                                         .lse_1 = lse[1],
                                         .lse_2 = lse[2],
                                         .lse_3 = lse[3],
                                         .lse_4 = lse[4],
                                         .lse_5 = lse[5],
                                         .lse_6 = lse[6],
                                         .lse_7 = lse[7],
                                         .count = static_cast<std::int32_t>(c.parts.size()),
                                         .out = call.buffer(c.out),
                                         .lse = c.lse.given() ? call.buffer(c.lse)
                                                              : call.scratch_buffer({extent[0], extent[1], extent[2]})};
    arguments.append_to(call.args);
    return queue(context, call);
}

}  // namespace

Status merge_on_device(Context::State &context, MergeCall call) {
    const CallStart start = start_of_call();
    std::vector<NamedView> all;
    for (const Part &part : call.parts) all.insert(all.end(), {{part.name_of_out, part.out}, {part.name_of_lse, part.lse}});
    all.insert(all.end(), {{"out", call.out}, {"lse", call.lse}});
    if (Status s = check_places(all, call.parts[0].name_of_out); !s.ok()) return s;
    MergeCall on_host = as_host(call);
    if (Status s = check_merge(on_host); !s.ok()) return s;
    if (Status s = check_32_bit_places(all, kernels_for_a_device); !s.ok()) return s;
    if (call.out.dtype == DType::f64) return unsupported(call.parts[0].name_of_out, "there are no kernels for f64 on a device");
    if (call.parts.size() > merged_on_device)
        return unsupported("count", "at most " + std::to_string(merged_on_device) + " parts are merged on a device, got " +
                                        std::to_string(call.parts.size()));
    Choice choice;
    if (Status s = choose(context, on_host, choice); !s.ok()) return s;
    if (choice.variant)
        if (Status s = run_kernel(context, on_host, *choice.variant); !s.ok()) return s;
    record_call(context, choice, ops::merge.name, start, [&] { return merge_sizes_text(on_host); });
    return {};
}

}  // namespace attune
