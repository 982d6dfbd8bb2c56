#include "max_magnitude.h"
#include "halide_call.h"
#include "op_call.h"
#include <algorithm>

namespace attune {
namespace {
// A core reads this many elements in about the time that it takes to wake another.
constexpr std::int64_t read_per_thread = 1 << 16;
}  // namespace

Status max_magnitude(Context::State &context, const ConstView &x, float *per_batch) {
    const std::int64_t batch = x.extent[0], entry = x.extent[1] * x.extent[2] * x.extent[3];
    if (batch == 0 || entry == 0) {
        std::fill(per_batch, per_batch + batch, 0.f);
        return {};
    }
    static constexpr Wish wishes[] = {{"rows", "", ""}, {"root", "", ""}};
    Choice choice;
    const VariantNeeds needs{.op = "max_magnitude", .dtype = x.dtype};
    if (Status s = choose_variant(needs, wishes, forced_variant(context, {}, needs.op), choice); !s.ok()) return s;
    HalideBuffer in(x), out(ConstView(per_batch, {batch}));
    void *args[] = {nullptr, in.get(), out.get()};
    const int threads = static_cast<int>(std::clamp<std::int64_t>(batch * entry / read_per_thread, 1, context.threads));
    return call_kernel(context, choice.variant->kernel, args, threads);
}

}  // namespace attune
