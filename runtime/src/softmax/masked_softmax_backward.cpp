// SPDX-License-Identifier: MIT
#include "attune/masked_softmax_backward.h"
#include "dispatch/op_call.h"
#include "execution/halide_call.h"
#include "kernel_arguments.h"
#include "softmax/masked_softmax_call.h"
#include "tensors/overlap.h"
#include <array>

namespace attune {
namespace {

// Views of rank 4, (B, H, Sq, Sk), and lengths (B, Sq).
struct SoftmaxBackwardCall {
    ConstView out, grad_out, lengths;
    View grad_scores;
};

Status check(const ConstView &out, const ConstView &grad_out, const View &grad_scores, const MaskedSoftmaxOptions &options,
             SoftmaxBackwardCall &c) {
    if (Status s = check_softmax_rows("out", out, "", out); !s.ok()) return s;
    if (Status s = check_softmax_rows("grad_out", grad_out, "out", out); !s.ok()) return s;
    if (Status s = check_softmax_rows("grad_scores", grad_scores, "out", out); !s.ok()) return s;
    if (Status s = check_fill(options.fill); !s.ok()) return s;
    c = {softmax_rows(out), softmax_rows(grad_out), {}, softmax_rows(grad_scores)};
    const std::int64_t *n = c.out.extent;
    if (options.valid_lens.given())
        if (Status s = check_valid_lens(options.valid_lens, "out", n[0], n[2], n[3], c.lengths); !s.ok()) return s;
    const auto apart = [&](const ConstView &v) { return same_memory(v, grad_scores) ? ConstView() : v; };
    const std::array<NamedView, 3> inputs{
        {{"out", apart(out)}, {"grad_out", apart(grad_out)}, {"valid_lens", options.valid_lens}}};
    const std::array<NamedView, 1> outputs{{{"grad_scores", grad_scores}}};
    return check_overlaps(inputs, outputs);
}

Status run_kernel(Context::State &context, SoftmaxBackwardCall &c, const VariantRecord &variant) {
    const std::int64_t *n = c.out.extent;
    const std::int64_t elements = elements_of(c.out);
    const auto every_key = static_cast<std::int32_t>(n[3]);
    if (!c.lengths.given()) c.lengths = ConstView(&every_key, {n[0], n[2]}, {0, 0});
    take_longer_dimension(c.lengths, c.grad_scores, c.out, c.grad_out);
    HalideBuffer out(c.out), grad_out(c.grad_out), lengths(c.lengths), grad_scores(c.grad_scores);
    const MaskedSoftmaxBackwardArguments arguments{
        .weights = out.get(), .grad_weights = grad_out.get(), .lengths = lengths.get(), .grad_scores = grad_scores.get()};
    return call_kernel(context, variant.kernel, arguments, softmax_threads(elements, context.threads));
}

Status run(Context::State &context, const ConstView &out, const ConstView &grad_out, const View &grad_scores,
           const MaskedSoftmaxOptions &options) {
    const CallStart start = start_of_call();
    SoftmaxBackwardCall call;
    if (Status s = check(out, grad_out, grad_scores, options, call); !s.ok()) return s;
    static constexpr Candidate candidates[] = {{Schedule::rows, "", "always"}, {Schedule::root, "", "nothing else is built"}};
    Choice choice;
    const VariantNeeds needs{.op = ops::masked_softmax_backward, .dtype = out.dtype};
    const Forced forced = forced_variant(context, options.variant, needs.op);
    if (Status s = choose_variant(needs, candidates, forced, choice); !s.ok()) return s;
    const std::int64_t *n = call.out.extent;
    const std::array<std::int64_t, 4> sizes{n[0], n[1], n[2], n[3]};
    if (elements_of(call.out) == 0)
        choice = {nullptr, "no scores"};
    else if (Status s = run_kernel(context, call, *choice.variant); !s.ok())
        return s;
    record_call(context, choice, needs.op.name, start, [&] { return softmax_sizes_text(sizes); });
    return {};
}

}  // namespace

Status masked_softmax_backward(Context &context, const ConstView &out, const ConstView &grad_out, const View &grad_scores,
                               const MaskedSoftmaxOptions &options) noexcept {
    const auto body = [](Context::State &state, const ConstView &o, const ConstView &grad, const View &gradient,
                         const MaskedSoftmaxOptions &given) { return run(state, o, grad, gradient, given); };
    return answer(context, body, out, grad_out, grad_scores, options);
}

}  // namespace attune
