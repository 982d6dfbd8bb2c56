// SPDX-License-Identifier: MIT
// Plan of attention on a device: the variant of a call, and the scratch that its rehearsal takes.
#include "attention/sdpa_device_call.h"
#include <utility>

namespace attune {

Status plan_on_device(Context::State &context, const SdpaProblem &p, Plan &plan) {
    SdpaOptions options;
    options.score = p.score, options.invariant = p.invariant;
    if (p.dropout) options.dropout.probability = 0.5;
    if (Status s = check_device_options(options, p.dtype); !s.ok()) return s;
    alignas(16) static const char memory[16] = {};  // no kernel is queued, so that only the address counts
    const auto rows = [&](std::int64_t heads, std::int64_t count, std::int64_t width) {
        const std::int64_t stride = (width + 7) / 8 * 8;
        ConstView v(reinterpret_cast<const float *>(memory), {p.batch, heads, count, width},
                    {heads * count * stride, count * stride, stride, 1});
        v.dtype = p.dtype;
        return v;
    };
    SdpaCall call;
    call.sizes = p, call.op = op_of(p.score), call.scale = 1;
    call.query = rows(p.query_heads, p.queries, p.head_dim), call.key = rows(p.key_heads, p.keys, p.head_dim);
    call.value = rows(p.key_heads, p.keys, p.value_dim);
    call.out = View(static_cast<float *>(nullptr), {p.batch, p.query_heads, p.queries, p.value_dim});
    DeviceBands bands;
    if (Status s = find_device_bands(Band{0, 1, 0}, p, bands); !s.ok()) return s;
    Choice choice;
    if (Status s = choose_attention_on_device(context, call, {}, choice); !s.ok()) return s;
    context.device_scratch.rehearses = true;
    const Status s = run_attention_on_device(context, call, choice, bands);
    context.device_scratch.rehearses = false;
    const std::size_t bytes = std::exchange(context.device_scratch.most, 0);
    plan = {.variant = std::string(choice.variant ? choice.variant->name : std::string_view()),
            .reason = std::string(choice.reason),
            .workspace_bytes = bytes,
            .workspace_bytes_of_any_lengths = bytes};
    if (choice.variant && !choice.forced) plan.candidates = plan_candidates(predictions_on_device(needs_on_device(call)));
    return s;
}

}  // namespace attune
