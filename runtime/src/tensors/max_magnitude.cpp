// SPDX-License-Identifier: MIT
#include "tensors/max_magnitude.h"
#include "dispatch/op_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "tensors/checks.h"
#include <algorithm>

namespace attune {
namespace {
// Elements that a core reads in about the time in which another core wakes.
constexpr std::int64_t read_per_thread = 1 << 16;
}  // namespace

Status choose_max_magnitude(const Context::State &context, DType dtype, Choice &choice) {
    static constexpr Candidate candidates[] = {{Schedule::rows, "", ""}, {Schedule::root, "", ""}};
    const VariantNeeds needs{.op = ops::max_magnitude, .dtype = dtype};
    return choose_variant(needs, candidates, forced_variant(context, {}, needs.op), choice);
}

Status max_magnitude(Context::State &context, const VariantRecord &variant, const ConstView &x, float *per_batch) {
    const std::int64_t batch = x.extent[0], elements = elements_of(x);
    if (elements == 0) {
        std::fill(per_batch, per_batch + batch, 0.f);
        return {};
    }
    HalideBuffer in(x), out(ConstView(per_batch, {batch}));
    const int threads = static_cast<int>(std::clamp<std::int64_t>(elements / read_per_thread, 1, context.threads));
    return call_kernel(context, variant.kernel, MaxMagnitudeArguments{.x = in.get(), .out = out.get()}, threads);
}

Status max_magnitude(Context::State &context, const ConstView &x, float *per_batch) {
    Choice choice;
    if (Status s = choose_max_magnitude(context, x.dtype, choice); !s.ok()) return s;
    return max_magnitude(context, *choice.variant, x, per_batch);
}

std::size_t max_magnitude_bytes(const Context::State &context, DType dtype, std::int64_t batch, std::int64_t heads,
                                std::int64_t rows) {
    Choice choice;
    if (!choose_max_magnitude(context, dtype, choice).ok()) return 0;  // the call itself fails for the same reason
    // Each tile has a block of maxima; the root schedule also keeps their terms. The defaults are the generator's.
    const int block = parameter_of(*choice.variant, "block", 16), task_rows = parameter_of(*choice.variant, "task_rows", 1);
    const std::int64_t tiles = ceil_div(rows, task_rows), stages = choice.variant->schedule_id == Schedule::root ? 2 : 1;
    return static_cast<std::size_t>((stages * tiles * heads * block + 1) * batch * size_of(dtype));
}

}  // namespace attune
