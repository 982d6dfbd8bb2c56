// SPDX-License-Identifier: MIT
#include "attune/masked_softmax.h"
#include "device/device_call.h"
#include "dispatch/op_call.h"
#include "dispatch/shape_record.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "softmax/masked_softmax_call.h"
#include "tensors/overlap.h"
#include <array>
#include <span>

namespace attune {
namespace {

// Views of rank 4, (B, H, Sq, Sk), and lengths (B, Sq).
struct SoftmaxCall {
    ConstView scores, lengths;
    View out;
    bool seed = false;

    std::array<std::int64_t, 4> sizes() const { return {out.extent[0], out.extent[1], out.extent[2], out.extent[3]}; }
};

Status check(const ConstView &scores, const View &out, const MaskedSoftmaxOptions &options, bool on_device, SoftmaxCall &c) {
    if (Status s = check_softmax_rows("scores", scores, "", scores); !s.ok()) return s;
    if (Status s = check_softmax_rows("out", out, "scores", scores); !s.ok()) return s;
    if (Status s = check_fill(options.fill); !s.ok()) return s;
    c.scores = softmax_rows(scores), c.out = softmax_rows(out);
    const std::int64_t batch = c.out.extent[0], rows = c.out.extent[2], keys = c.out.extent[3];
    c.lengths = {};
    if (options.valid_lens.given()) {
        // Lengths on a device are not read.
        const Status s = on_device ? check_row_ints("valid_lens", as_host(options.valid_lens), "scores", batch, rows, c.lengths)
                                   : check_valid_lens(options.valid_lens, "scores", batch, rows, keys, c.lengths);
        if (!s.ok()) return s;
    }
    c.seed = options.fill == MaskFill::seed;

    const std::array<NamedView, 2> inputs{
        {{"valid_lens", options.valid_lens}, {"scores", same_memory(scores, out) ? ConstView() : scores}}};
    const std::array<NamedView, 1> outputs{{{"out", out}}};
    return check_overlaps(inputs, outputs);
}

Status run(Context::State &context, SoftmaxCall &c, const VariantRecord &variant, std::int64_t elements) {
    const auto every_key = static_cast<std::int32_t>(c.out.extent[3]);
    if (!c.lengths.given()) c.lengths = ConstView(&every_key, {c.out.extent[0], c.out.extent[2]}, {0, 0});
    take_longer_dimension(c.lengths, c.out, c.scores);
    HalideBuffer scores(c.scores), lengths(c.lengths), out(c.out);
    const MaskedSoftmaxArguments arguments{.scores = scores.get(), .lengths = lengths.get(), .seed = c.seed, .out = out.get()};
    return call_kernel(context, variant.kernel, arguments, softmax_threads(elements, context.threads));
}

Status run_on_device(Context::State &context, SoftmaxCall &c, std::string_view variant, Choice &choice) {
    constexpr std::int64_t warp_keys_at_most = 1024;  // longest row for which a warp is as quick as a block
    const bool is_long = c.out.extent[3] > warp_keys_at_most;
    const DeviceNeeds needs{
        .op = ops::masked_softmax,
        .dtype = c.out.dtype,
        .sizes = [&] { return softmax_sizes_text(c.sizes()); },
        .order = [=](const Runnable &v) { return (v.record->shape_class == "long") == is_long ? 0.0 : 1.0; }};
    if (Status s = choose_on_device(context, needs, variant, choice); !s.ok()) return s;
    const bool has_lengths = c.lengths.given();
    if (!has_lengths) c.lengths = stand_in(c.scores, DType::i32, {c.out.extent[0], c.out.extent[2]});
    take_longer_dimension(c.lengths, c.out, c.scores);
    DeviceCall call(*choice.variant);
    const DeviceMaskedSoftmaxArguments arguments{.scores = call.buffer(c.scores),
                                                 .has_lengths = has_lengths,
                                                 .lengths = call.buffer(c.lengths),
                                                 .seed = c.seed,
                                                 .out = call.buffer(c.out)};
    arguments.append_to(call.args);
    return queue(context, call);
}

Status compute_on_device(Context::State &context, const ConstView &scores, const View &out,
                         const MaskedSoftmaxOptions &options) {
    const CallStart start = start_of_call();
    const std::array<NamedView, 3> all{{{"scores", scores}, {"out", out}, {"valid_lens", options.valid_lens}}};
    if (Status s = check_places(all, "scores"); !s.ok()) return s;
    SoftmaxCall call;
    if (Status s = check(as_host(scores), as_host(out), options, true, call); !s.ok()) return s;
    if (Status s = check_32_bit_places(all, kernels_for_a_device); !s.ok()) return s;
    if (scores.dtype == DType::f64) return unsupported("scores", "there are no kernels for f64 on a device");
    const std::array<std::int64_t, 4> sizes = call.sizes();
    Choice choice = {nullptr, "no scores"};
    if (elements_of(call.out) != 0)
        if (Status s = run_on_device(context, call, options.variant, choice); !s.ok()) return s;
    record_call(context, choice, "masked_softmax", start, [&] { return softmax_sizes_text(sizes); });
    return {};
}

Status compute(Context::State &context, const ConstView &scores, const View &out, const MaskedSoftmaxOptions &options,
               std::string_view why_here = {}) {
    if (scores.place == Place::device) {
        std::string instead;
        if (Status s = find_device(context, "scores", instead); !s.ok()) return s;
        if (instead.empty()) return compute_on_device(context, scores, out, options);
        return compute(context, as_host(scores), as_host(out), as_host(options), instead);
    }
    const CallStart start = start_of_call();
    SoftmaxCall call;
    if (Status s = check(scores, out, options, false, call); !s.ok()) return s;
    const std::array<std::int64_t, 4> sizes = call.sizes();
    const auto [b, h, q, k] = sizes;
    const std::int64_t elements = elements_of(call.out);
    constexpr std::int64_t large_bytes = 1 << 20;
    const bool large = elements * size_of(scores.dtype) >= large_bytes;
    static constexpr Candidate candidates[] = {{Schedule::rows, "mem", "out is of a MiB or more"},
                                               {Schedule::rows, "", "always"},
                                               {Schedule::root, "", "nothing else is built"}};
    Choice choice;
    const VariantNeeds needs{.op = ops::masked_softmax, .dtype = scores.dtype};
    const Forced forced = forced_variant(context, options.variant, needs.op);
    if (Status s = choose_variant(needs, std::span(candidates).subspan(large ? 0 : 1), forced, choice); !s.ok()) return s;

    ShapeLine line{.op = needs.op.name, .dtype = scores.dtype, .b = b, .h = h, .q = q, .k = k};
    if (context.shapes && call.lengths.given() && elements) line.length = lengths_column(call.lengths, k, line.exact);
    if (elements == 0)
        choice = {nullptr, "no scores"};
    else if (Status s = run(context, call, *choice.variant, elements); !s.ok())
        return s;
    if (!why_here.empty()) choice.reason = why_here;
    record_call(context, choice, needs.op.name, start, [&] { return softmax_sizes_text(sizes); });
    record_shape(context, start, [&] { return line; });
    return {};
}

}  // namespace

Status masked_softmax(Context &context, const ConstView &scores, const View &out,
                      const MaskedSoftmaxOptions &options) noexcept {
    const auto body = [](Context::State &state, const ConstView &s, const View &o, const MaskedSoftmaxOptions &given) {
        return compute(state, s, o, given);
    };
    return answer(context, body, scores, out, options);
}

}  // namespace attune
