// SPDX-License-Identifier: MIT
// A training step of one attention layer: the forward, a loss, and gradients by every input; then a check of the gradients
// against the change of the loss when the inputs move along them.
#include "show.h"

using namespace examples;
using attune::Causal;

namespace {
// Four queries and six keys of two heads that share their keys; the bias is the same for both heads.
Array query = normal({1, 2, 4, 8}), key = normal({1, 1, 6, 8}), value = normal({1, 1, 6, 8}), bias = normal({4, 6});
Array out({1, 2, 4, 8}), lse({1, 2, 4}), grad_out = out, target = normal({1, 2, 4, 8});
Array grad_query = query, grad_key = key, grad_value = value, grad_bias = bias;

// Half the squared distance of out from its target; grad_out is its gradient by out.
double loss() {
    double sum = 0;
    for (std::size_t n = 0; n < out.numbers.size(); n++) {
        grad_out.numbers[n] = out.numbers[n] - target.numbers[n];
        sum += 0.5 * double(grad_out.numbers[n]) * double(grad_out.numbers[n]);
    }
    return sum;
}
}  // namespace

int main() {
    attune::Context context;
    // README: step
    attune::SdpaOptions options{.bias = bias, .causal = Causal::bottom_right, .dropout = {.probability = 0.25, .seed = 7}};
    options.lse = lse;  // beside out, all that the backward wants to have kept
    require(attune::scaled_dot_product_attention(context, query, key, value, out, options));
    const double before = loss();

    options.lse = {};  // an output of the forward; the backward is given it as an input
    require(attune::scaled_dot_product_attention_backward(
        context, query, key, value, {.out = out, .lse = lse, .grad_out = grad_out},
        {.query = grad_query, .key = grad_key, .value = grad_value, .bias = grad_bias}, options));
    // README: end

    // Along all gradients at once the loss has to change by the step times the sum of their squares.
    const double step = 1e-3;
    double squares = 0;
    for (const auto &[x, by] : {std::pair(&query, &grad_query), {&key, &grad_key}, {&value, &grad_value}, {&bias, &grad_bias}})
        for (std::size_t n = 0; n < x->numbers.size(); n++) {
            x->numbers[n] -= float(step) * by->numbers[n];
            squares += double(by->numbers[n]) * double(by->numbers[n]);
        }
    require(attune::scaled_dot_product_attention(context, query, key, value, out, options));
    const double change = (before - loss()) / (step * squares);
    std::printf("one step of gradient descent\n");
    show("the loss falls as the gradients say, within a hundredth", std::abs(change - 1) < 0.01 ? "yes" : "no", "yes");
    // Query 3 sees every key, query 0 the first three: masked pairs have no gradient.
    show("gradient by the bias of query 0 and the last keys",
         text_of(Array({3}, {grad_bias.numbers[3], grad_bias.numbers[4], grad_bias.numbers[5]})), "[0, 0, 0]");
    return exit_code();
}
