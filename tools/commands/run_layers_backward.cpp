// SPDX-License-Identifier: MIT
// attune run mha-backward, linear-backward and masked-softmax-backward.
#include "tools/calls/gradient.h"
#include "tools/calls/layer.h"
#include "tools/error.h"

namespace attune::program {

void run_multi_head_backward(const MultiHeadBackwardArguments &given) {
    Gradient query{"--grad-query", given.grad_query}, key{"--grad-key", given.grad_key},
        value{"--grad-value", given.grad_value}, w_query{"--grad-w-query", given.grad_w_query},
        w_key{"--grad-w-key", given.grad_w_key}, w_value{"--grad-w-value", given.grad_w_value},
        w_out{"--grad-w-out", given.grad_w_out}, b_query{"--grad-b-query", given.grad_b_query},
        b_key{"--grad-b-key", given.grad_b_key}, b_value{"--grad-b-value", given.grad_b_value},
        b_out{"--grad-b-out", given.grad_b_out}, bias{"--grad-bias", given.grad_bias},
        slopes{"--grad-slopes", given.grad_slopes}, sinks{"--grad-sinks", given.grad_sinks};
    const std::initializer_list<Gradient *> gradients = {&query,   &key,   &value,   &w_query, &w_key, &w_value, &w_out,
                                                         &b_query, &b_key, &b_value, &b_out,   &bias,  &slopes,  &sinks};
    CommandFiles files(given.layer.attention.call);
    Attention attention(given.layer.attention, files, Attention::Heads::made);
    Layer layer(given.layer, files);
    Array grad_out;
    files.input("--grad-out", given.grad_out, grad_out, {3, any_rank, "(B, Sq, Eo)"});
    name_outputs(files, gradients);
    files.load();
    layer.check_heads();
    attention.add_arrays();
    constexpr int kept = 2;  // extents that are not the batch
    attention.check_batch("--grad-out", grad_out, kept);

    const ElementType type = files.type();
    MultiHeadGradients wanted;
    wanted.query = query.make("--query", true, type, attention.query.shape, kept);
    wanted.key = key.make("--key", true, type, attention.key.shape, kept);
    wanted.value = value.make("--value", true, type, attention.value.shape, kept);
    const auto of = [&](Gradient &gradient, const char *name, const Array &array) {
        return gradient.make(name, array.rank() > 0, type, array.shape, array.rank());
    };
    wanted.weights = {of(w_query, "--w-query", layer.w_query), of(w_key, "--w-key", layer.w_key),
                      of(w_value, "--w-value", layer.w_value), of(w_out, "--w-out", layer.w_out),
                      of(b_query, "--b-query", layer.b_query), of(b_key, "--b-key", layer.b_key),
                      of(b_value, "--b-value", layer.b_value), of(b_out, "--b-out", layer.b_out)};
    make_option_gradients(attention, layer.options.heads, type, bias, slopes, sinks, wanted.attention);

    Context context(context_options(given.layer.attention.call));
    check(context.status());
    layer.options.attention = attention.options;
    check(multi_head_attention_backward(context, attention.query_view(), attention.key_view(), attention.value_view(),
                                        layer.weights(), view_of(grad_out, kept), wanted, layer.options));
    write_all(files, gradients);
}

void run_linear_backward(const LinearBackwardArguments &given) {
    Gradient grad_x{"--grad-x", given.grad_x}, grad_weight{"--grad-weight", given.grad_weight},
        grad_bias{"--grad-bias", given.grad_bias};
    const std::initializer_list<Gradient *> gradients = {&grad_x, &grad_weight, &grad_bias};
    CommandFiles files(given.call);
    Array x, weight, grad_out;
    files.input("--x", given.x, x, {1, any_rank, "(..., K)"});
    files.input("--weight", given.weight, weight, {2, 2, "(N, K)"});
    files.input("--grad-out", given.grad_out, grad_out, {1, any_rank, "(..., N)"});
    name_outputs(files, gradients);
    files.load();
    if (given.grad_x && !given.weight) throw InputError("--grad-x", "needs --weight");
    if (given.grad_weight && !given.x) throw InputError("--grad-weight", "needs --x");
    const Shape leading(grad_out.shape.begin(), grad_out.shape.end() - 1);
    if (given.x && Shape(x.shape.begin(), x.shape.end() - 1) != leading)
        throw InputError("--x", "has shape " + text_of(x.shape) + ", and --grad-out " + text_of(grad_out.shape));

    const ElementType type = files.type();
    const std::int64_t columns = grad_out.shape.back();
    Shape of_x = leading;
    of_x.push_back(given.weight ? weight.shape[1] : 0);
    LinearGradients wanted;
    wanted.x = grad_x.make("--weight", true, type, of_x, max_rank - 1);
    wanted.weight = grad_weight.make("--x", true, type, {columns, given.x ? x.shape.back() : 0}, 2);
    wanted.bias = grad_bias.make("--grad-out", true, type, {columns}, 1);
    Context context(context_options(given.call));
    check(context.status());
    check(
        linear_backward(context, view_of(x), view_of(weight), view_of(grad_out), wanted, {.variant = variant_of(given.call)}));
    write_all(files, gradients);
}

void run_masked_softmax_backward(const MaskedSoftmaxBackwardArguments &given) {
    if (given.scores && given.in_out) throw InputError("--in-out", "is given beside --scores; give one of them");
    if (!given.scores && !given.in_out) throw InputError("--scores", "or --in-out must be given");
    MaskedSoftmaxOptions options;
    options.fill = fill_of(given.fill);
    const ContextOptions resources = context_options(given.call);
    CommandFiles files(given.call);
    const char *first = given.scores ? "--scores" : "--in-out";
    Array in, lens, grad_out;
    const Ranks rows{2, any_rank, "(B, H, Sq, Sk), (B, Sq, Sk) or (B, Sk)"};
    files.input(first, given.scores ? given.scores : given.in_out, in, rows);
    files.input("--grad-out", given.grad_out, grad_out, rows);
    files.input("--valid-lens", given.valid_lens, lens, {1, any_rank, "(B,) or (B, Sq)"}, Role::integers);
    files.output("--grad-scores", given.grad_scores);
    files.load();
    if (grad_out.shape != in.shape)
        throw InputError("--grad-out", "has shape " + text_of(grad_out.shape) + ", expected that of " + std::string(first) +
                                           ", " + text_of(in.shape));
    const int leading_rank = std::max(1, in.rank() - 3);
    if (leading_rank > 1 && lens.rank() > 0)
        check_leading("--valid-lens", lens, {in.shape.begin(), in.shape.begin() + leading_rank}, first);
    options.valid_lens = per_batch_view(lens, leading_rank);
    Context context(resources);
    check(context.status());
    if (given.scores) {
        Array out = output_array("--scores", in.type, in.shape);
        check(masked_softmax(context, view_of(in), output_view(out), options));
        in = std::move(out);
    }
    Array grad_scores = output_array("--grad-scores", in.type, in.shape);
    options.variant = variant_of(given.call);
    const Status status = masked_softmax_backward(context, view_of(in), view_of(grad_out), output_view(grad_scores), options);
    // "out" is an input here.
    check(status.message().starts_with("out:") ? Status(status.code(), "in_" + status.message()) : status);
    files.write("--grad-scores", grad_scores);
    files.commit();
}

}  // namespace attune::program
