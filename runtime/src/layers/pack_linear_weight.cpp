// SPDX-License-Identifier: MIT
#include "attune/linear.h"
#include "dispatch/op_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "layers/linear_call.h"
#include <array>

namespace attune {
namespace {

constexpr const Op &op = ops::pack_linear_weight;

Status check(const ConstView &weight, const View &packed) {
    if (weight.rank != 2) return invalid("weight", "rank must be 2 (N, K), got " + text(weight.rank));
    if (Status s = check_rows("weight", weight); !s.ok()) return s;
    if (weight.extent[0] < 1) return invalid("weight", "first extent must be at least 1, got " + text(weight.extent[0]));
    if (packed.rank != 3) return invalid("packed", "rank must be 3, got " + text(packed.rank));
    if (Status s = check_rows("packed", packed, "weight", weight.dtype); !s.ok()) return s;
    if (Status s = check_packed_extents("packed", packed, weight.extent[0], weight.extent[1]); !s.ok()) return s;
    std::int64_t dense = packed.extent[2];
    for (int n = 1; n >= 0; dense *= packed.extent[n--])
        if (packed.extent[n] > 1 && packed.stride[n] != dense)
            return invalid("packed",
                           "stride " + text(n) + " must be " + text(dense) + " (dense), got " + text(packed.stride[n]));
    const std::array<NamedView, 1> inputs{{{"weight", weight}}}, outputs{{{"packed", packed}}};
    return check_overlaps(inputs, outputs);
}

Status run_kernel(Context::State &context, const ConstView &weight, const View &packed, const VariantRecord &variant) {
    // The kernel writes words: a pair of bf16 is a word of 32 bits.
    const DType word = packed.dtype == DType::bf16 ? DType::i32 : packed.dtype;
    const std::int64_t columns = packed.extent[2] * size_of(packed.dtype) / size_of(word);
    ConstView words(static_cast<const float *>(packed.data), {packed.extent[0], packed.extent[1], columns});
    words.dtype = word;
    HalideBuffer source(weight), target(words);
    const PackLinearWeightArguments arguments{.weight = source.get(), .packed = target.get()};
    constexpr double multiply_adds_an_element = 8;  // multiply-adds in the time of moving an element
    const double elements = static_cast<double>(weight.extent[0]) * static_cast<double>(weight.extent[1]);
    const int threads = worthwhile_threads(elements * multiply_adds_an_element, context.threads);
    return call_kernel(context, variant.kernel, arguments, threads);
}

Status run(Context::State &state, const ConstView &weight, const View &packed, const LinearOptions &options) {
    const CallStart start = start_of_call();
    if (Status s = check(weight, packed); !s.ok()) return s;
    Choice choice;
    const std::array<Candidate, 2> candidates{
        {{Schedule::blocks, "", "the order of linear()"}, {Schedule::root, "", "nothing else is built"}}};
    const Forced forced = forced_variant(state, options.variant, op);
    if (Status s = choose_variant({.op = op, .dtype = weight.dtype}, candidates, forced, choice); !s.ok()) return s;
    if (Status s = run_kernel(state, weight, packed, *choice.variant); !s.ok()) return s;
    record_call(state, choice, op.name, start,
                [&] { return "columns " + text(weight.extent[0]) + " depth " + text(weight.extent[1]); });
    return {};
}

}  // namespace

Status pack_linear_weight(Context &context, const ConstView &weight, const View &packed,
                          const LinearOptions &options) noexcept {
    const auto body = [&](Context::State &state, const ConstView &w, const View &p) { return run(state, w, p, options); };
    return answer(context, body, weight, packed);
}

}  // namespace attune
