#include "attune/masked_softmax.h"
#include "checks.h"
#include "halide_call.h"
#include "op_call.h"
#include "overlap.h"
#include <algorithm>
#include <array>
#include <utility>

namespace attune {
namespace {

// A core computes this many weights in about the time that it takes to wake another.
constexpr std::int64_t elements_per_thread = 1 << 14;

// Views of rank 4, (B, H, Sq, Sk), and lengths (B, Sq).
struct SoftmaxCall {
    ConstView scores, lengths;
    View out;
    bool seed = false;
};

template<typename Data> void exchange(BasicView<Data> &v, int n, int with) {
    std::swap(v.extent[n], v.extent[with]);
    std::swap(v.stride[n], v.stride[with]);
}

// Tasks are cut from the rows of one dimension, Sq. Where it has one row, another takes its place.
void take_longer_dimension(SoftmaxCall &c) {
    if (c.out.extent[2] != 1) return;
    const int other = c.out.extent[1] == 1 ? 0 : 1;
    exchange(c.scores, other, 2), exchange(c.out, other, 2);
    if (other == 0)
        exchange(c.lengths, 0, 1);
    else
        c.lengths.extent[1] = c.out.extent[2], c.lengths.stride[1] = 0;
}

Status check(const ConstView &scores, const View &out, const MaskedSoftmaxOptions &options, SoftmaxCall &c) {
    if (scores.rank < 2 || scores.rank > max_rank)
        return invalid("scores", "rank must be from 2 to 4, got " + text(scores.rank));
    if (Status s = check_wide("scores", scores); !s.ok()) return s;
    if (Status s = check_memory("scores", scores); !s.ok()) return s;
    if (Status s = check_dense("scores", scores); !s.ok()) return s;
    if (out.rank != scores.rank)
        return invalid("out", "rank is " + text(out.rank) + ", that of scores is " + text(scores.rank));
    if (Status s = check_same_type("out", out.dtype, "scores", scores.dtype); !s.ok()) return s;
    if (Status s = check_memory("out", out); !s.ok()) return s;
    if (Status s = check_dense("out", out); !s.ok()) return s;
    for (int n = 0; n < out.rank; n++)
        if (Status s = check_extent("out", "extent " + text(n), out.extent[n], "scores", scores.extent[n]); !s.ok()) return s;
    if (options.fill != MaskFill::zero && options.fill != MaskFill::seed)
        return invalid("fill", "must be 0 or 1, got " + text(static_cast<int>(options.fill)));

    c.scores = as_rank4(scores, true), c.out = as_rank4(out, true);
    if (scores.rank == 2) exchange(c.scores, 0, 2), exchange(c.out, 0, 2);  // (B, Sk)
    const std::int64_t batch = c.out.extent[0], rows = c.out.extent[2], keys = c.out.extent[3];
    if (options.valid_lens.given()) {
        if (Status s = check_valid_lens(options.valid_lens, "scores", batch, rows, keys, c.lengths); !s.ok()) return s;
    } else {
        c.lengths = {};
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
    take_longer_dimension(c);
    HalideBuffer scores(c.scores), lengths(c.lengths), out(c.out);
    void *args[] = {nullptr, scores.get(), lengths.get(), &c.seed, out.get()};
    const int threads = static_cast<int>(std::clamp<std::int64_t>(elements / elements_per_thread, 1, context.threads));
    return call_kernel(context, variant.kernel, args, threads);
}

Status normalise(Context::State &context, const ConstView &scores, const View &out, const MaskedSoftmaxOptions &options) {
    const CallStart start = start_of_call();
    SoftmaxCall call;
    if (Status s = check(scores, out, options, call); !s.ok()) return s;
    static constexpr Wish wishes[] = {{"rows", "", "always"}, {"root", "", "nothing else is built"}};
    Choice choice;
    const VariantNeeds needs{.op = "masked_softmax", .dtype = scores.dtype};
    const Forced forced = forced_variant(context, options.variant, needs.op);
    if (Status s = choose_variant(needs, wishes, forced, choice); !s.ok()) return s;

    const std::int64_t *n = call.out.extent;
    const std::array<std::int64_t, 4> sizes{n[0], n[1], n[2], n[3]};
    const std::int64_t elements = n[0] * n[1] * n[2] * n[3];
    if (elements == 0)
        choice = {nullptr, "no scores"};
    else if (Status s = run(context, call, *choice.variant, elements); !s.ok())
        return s;
    record_call(context, choice, needs.op, start, [&] {
        return "b " + text(sizes[0]) + " h " + text(sizes[1]) + " q " + text(sizes[2]) + " k " + text(sizes[3]);
    });
    return {};
}

}  // namespace

Status masked_softmax(Context &context, const ConstView &scores, const View &out,
                      const MaskedSoftmaxOptions &options) noexcept {
    return answer(context, [&](Context::State &state) { return normalise(state, scores, out, options); });
}

}  // namespace attune
