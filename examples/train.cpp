// SPDX-License-Identifier: MIT
// Document 003, attention in sequence-to-sequence models: its decoder, learned. A recurrent decoder attends to the encoder's
// states at each step and is trained to write a sequence of numbers backwards; the gradients alone teach it to look from right
// to left.
// usage: attune_train [PICTURE.svg]
#include "draw.h"
#include "learning.h"
#include <algorithm>
#include <numeric>

using namespace examples;
using attune::ConstView, attune::View;

namespace {
constexpr std::int64_t batch = 64, length = 8, symbols = 10, width = 32;
attune::Context context;

// A view of an array in another shape.
View shaped(Array &x, Shape shape) {
    View v = x;
    v.rank = int(shape.size());
    std::int64_t dense = 1;
    for (int n = v.rank; n-- > 0; dense *= shape[std::size_t(n)]) v.extent[n] = shape[std::size_t(n)], v.stride[n] = dense;
    return v;
}

using Parameter = examples::ParameterOf<float>;
using Layer = examples::LayerOf<float>;
constexpr float rate = 4e-3f;

void take_tanh(Array &x) {
    for (float &e : x.numbers) e = std::tanh(e);
}
void through_tanh(Array &gradient, const Array &value) {
    for (std::size_t n = 0; n < value.numbers.size(); n++) gradient.numbers[n] *= 1 - value.numbers[n] * value.numbers[n];
}
// Rows of arrays (B, ...) side by side, and split again.
Array beside(const std::vector<const Array *> &parts) {
    std::int64_t columns = 0;
    for (const Array *p : parts) columns += p->shape.back();
    Array all({batch, columns});
    std::int64_t at = 0;
    for (const Array *p : parts) {
        const std::int64_t n = p->shape.back();
        for (std::int64_t b = 0; b < batch; b++)
            std::copy_n(p->numbers.begin() + b * n, n, all.numbers.begin() + b * columns + at);
        at += n;
    }
    return all;
}
void add_columns(const Array &from, std::int64_t first, Array &to) {
    const std::int64_t columns = from.shape.back(), n = to.shape.back();
    for (std::int64_t b = 0; b < batch; b++)
        for (std::int64_t d = 0; d < n; d++)
            to.numbers[std::size_t(b * n + d)] += from.numbers[std::size_t(b * columns + first + d)];
}

struct Model {
    Layer encoder{width, symbols + length}, keys{width, width};  // h_j = tanh(f(symbol j, j)), W_h h_j + b_h
    Layer query{width, width};                                   // W_s s + b_s
    Parameter score{{width}, 1 / std::sqrt(float(width))};       // v
    Layer state{width, width + symbols + width};                 // s_i = tanh(f(s_(i-1), y_(i-1), c_i))
    Layer output{symbols, width + width};                        // symbol y_i, from s_i and c_i

    void step(int count) {
        for (Layer *layer : {&encoder, &keys, &query, &state, &output}) layer->step(count, rate);
        score.step(count, rate);
    }
};

// Values of one decoder step that its backward pass needs.
struct Step {
    Array state, context_vector, lse, state_input, next_state, output_input, by_logits;
};

attune::AdditiveOptions options_of(const Model &model) {
    return {.w_query = model.query.weight.value, .b_query = model.query.bias.value, .w_score = model.score.value};
}

// The mean loss of a batch, and its gradients in the model. If given, alignment (B, L, L) gets the weights of each step.
float train(Model &model, const std::vector<int> &source, Array *alignment) {
    // The encoder's states are projected once, for all steps.
    Array marks({batch, length, symbols + length});
    for (std::int64_t row = 0; row < batch * length; row++) {
        marks.numbers[std::size_t(row * (symbols + length) + source[std::size_t(row)])] = 1;
        marks.numbers[std::size_t(row * (symbols + length) + symbols + row % length)] = 1;
    }
    Array states = model.encoder.forward(context, marks);
    take_tanh(states);
    const Array keys = model.keys.forward(context, states);

    float loss = 0;
    std::vector<Step> steps;
    Array state({batch, width}), written({batch, symbols});
    for (std::int64_t i = 0; i < length; i++) {
        Array found({batch, width}), lse({batch, 1}), weights({batch, 1, length});
        attune::AdditiveOptions options = options_of(model);
        options.attention.lse = lse;
        if (alignment) options.attention.weights = weights;
        require(attune::additive_attention(context, shaped(state, {batch, 1, width}), keys, states,
                                           shaped(found, {batch, 1, width}), options));
        for (std::int64_t b = 0; alignment && b < batch; b++)
            std::copy_n(weights.numbers.begin() + b * length, length, alignment->numbers.begin() + (b * length + i) * length);
        Array state_input = beside({&state, &written, &found});
        Array next = model.state.forward(context, state_input);
        take_tanh(next);
        Array output_input = beside({&next, &found});
        const Array logits = model.output.forward(context, output_input);

        // Softmax and cross entropy against the correct symbol, with which the decoder goes on.
        Array by_logits({batch, symbols});
        require(attune::masked_softmax(context, logits, by_logits));
        std::fill(written.numbers.begin(), written.numbers.end(), 0.0f);
        for (std::int64_t b = 0; b < batch; b++) {
            const std::size_t right = std::size_t(b * symbols + source[std::size_t(b * length + length - 1 - i)]);
            loss -= std::log(std::max(by_logits.numbers[right], 1e-30f)) / (batch * length);
            by_logits.numbers[right] -= 1, written.numbers[right] = 1;
        }
        for (float &g : by_logits.numbers) g /= batch * length;
        steps.push_back({state, found, lse, state_input, next, output_input, by_logits});
        state = next;
    }

    // The backward pass, from the last step to the first.
    Array by_states(states.shape), by_keys(keys.shape), by_next({batch, width});
    while (!steps.empty()) {
        Step &s = steps.back();
        Array by_found({batch, width}), by_state({batch, width});
        const Array by_output = model.output.backward(context, s.output_input, s.by_logits);
        add_columns(by_output, 0, by_next), add_columns(by_output, width, by_found);
        through_tanh(by_next, s.next_state);
        const Array by_input = model.state.backward(context, s.state_input, by_next);
        add_columns(by_input, 0, by_state), add_columns(by_input, width + symbols, by_found);

        Array of_query({batch, width}), of_keys(keys.shape), of_states(states.shape), w_query({width, width}), b_query({width}),
            w_score({width});
        attune::AdditiveGradients gradients;
        gradients.query = shaped(of_query, {batch, 1, width}), gradients.key = of_keys, gradients.value = of_states;
        gradients.w_query = w_query, gradients.b_query = b_query, gradients.w_score = w_score;
        const attune::SdpaForward forward{shaped(s.context_vector, {batch, 1, width}), s.lse,
                                          shaped(by_found, {batch, 1, width})};
        require(attune::additive_attention_backward(context, shaped(s.state, {batch, 1, width}), keys, states, forward,
                                                    gradients, options_of(model)));
        add(of_query, by_state), add(of_keys, by_keys), add(of_states, by_states);
        add(w_query, model.query.weight.gradient), add(b_query, model.query.bias.gradient), add(w_score, model.score.gradient);
        by_next = by_state;
        steps.pop_back();
    }
    add(model.keys.backward(context, states, by_keys), by_states);
    through_tanh(by_states, states);
    model.encoder.backward(context, marks, by_states);
    return loss;
}

std::vector<int> random_source() {
    std::vector<int> source(batch * length);
    for (int &symbol : source) symbol = int(random_engine()() % symbols);
    return source;
}
}  // namespace

int main(int argc, char **argv) {
    Model model;
    constexpr float optimum = 0, enough = 0.005f;  // the output is certain, so the optimum is 0
    float loss = std::log(float(symbols)), smoothed = loss;
    std::printf("loss of a guess: %.3f\n", double(loss));
    int count = 0;
    while (smoothed > optimum + enough && count < 4000) {
        loss = train(model, random_source(), nullptr);
        smoothed += 0.1f * (loss - smoothed);
        model.step(++count);
        if (count % 100 == 0) std::printf("  step %4d: loss %.4f\n", count, double(smoothed));
    }
    std::printf("%d steps: loss %.4f\n", count, double(smoothed));
    show("the loss has fallen to the optimum, 0, but for 0.005", smoothed <= optimum + enough ? "yes" : "no", "yes");

    // Unseen sequences: step i should look at key length - 1 - i.
    Array alignment({batch, length, length});
    train(model, random_source(), &alignment);
    show_sums(alignment);
    int from_behind = 0;
    Array mean({1, length, length});
    for (std::int64_t row = 0; row < batch * length; row++) {
        const auto weights = alignment.numbers.begin() + row * length;
        from_behind += std::max_element(weights, weights + length) - weights == length - 1 - row % length;
        for (std::int64_t j = 0; j < length; j++)
            mean.numbers[std::size_t(row % length * length + j)] += weights[j] / float(batch);
    }
    std::printf("%d of %d steps look most at the symbol that they write\n", from_behind, int(batch * length));
    show("at least 95 of 100 do", from_behind * 100 >= batch * length * 95 ? "yes" : "no", "yes");
    if (argc > 1) draw(argv[1], mean, {});
    return exit_code();
}
