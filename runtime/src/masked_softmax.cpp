#include "attune/masked_softmax.h"
#include "halide_call.h"
#include "masked_softmax_call.h"
#include "op_call.h"
#include "overlap.h"
#include "shape_record.h"
#include <array>

namespace attune {
namespace {

// Views of rank 4, (B, H, Sq, Sk), and lengths (B, Sq).
struct SoftmaxCall {
    ConstView scores, lengths;
    View out;
    bool seed = false;
};

Status check(const ConstView &scores, const View &out, const MaskedSoftmaxOptions &options, SoftmaxCall &c) {
    if (Status s = check_softmax_rows("scores", scores, "", scores); !s.ok()) return s;
    if (Status s = check_softmax_rows("out", out, "scores", scores); !s.ok()) return s;
    if (Status s = check_fill(options.fill); !s.ok()) return s;
    c.scores = softmax_rows(scores), c.out = softmax_rows(out);
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
    take_longer_dimension(c.lengths, c.out, c.scores);
    HalideBuffer scores(c.scores), lengths(c.lengths), out(c.out);
    void *args[] = {nullptr, scores.get(), lengths.get(), &c.seed, out.get()};
    return call_kernel(context, variant.kernel, args, softmax_threads(elements, context.threads));
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
    ShapeLine line{.op = needs.op, .dtype = scores.dtype, .b = n[0], .h = n[1], .q = n[2], .k = n[3]};
    if (context.shapes && call.lengths.given() && elements) line.length = lengths_column(call.lengths, n[3], line.exact);
    if (elements == 0)
        choice = {nullptr, "no scores"};
    else if (Status s = run(context, call, *choice.variant, elements); !s.ok())
        return s;
    record_call(context, choice, needs.op, start, [&] { return softmax_sizes_text(sizes); });
    record_shape(context, start, [&] { return line; });
    return {};
}

}  // namespace

Status masked_softmax(Context &context, const ConstView &scores, const View &out,
                      const MaskedSoftmaxOptions &options) noexcept {
    return answer(context, [&](Context::State &state) { return normalise(state, scores, out, options); });
}

}  // namespace attune
