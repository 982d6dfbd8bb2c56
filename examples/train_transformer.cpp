// SPDX-License-Identifier: MIT
// A small transformer learns a language: sentences of different lengths packed without padding, attention and its gradients by
// variable_length_attention. The entropy of the language is known, so the loss has a known optimum.
#include "grammar.h"
#include "transformer.h"

using namespace examples;

namespace {
attune::Context context;
constexpr Sizes sizes{.vocabulary = std::int64_t(grammar::words.size()),
                      .width = 48,
                      .layers = 2,
                      .heads = 4,
                      .key_heads = 2,
                      .head_dim = 16,
                      .hidden = 96};

// Sentences without their last word, and the word behind each; surprise: the mean loss of a reader who knows the language.
struct Text {
    Packed packed;
    std::vector<std::int32_t> next;
    double surprise = 0;
};
Text write(int sentences) {
    grammar::Writer writer(random_engine());
    Text text;
    for (int n = 0; n < sentences; n++) {
        const grammar::Sentence s = writer.sentence();
        text.packed.add(s.tokens.data(), s.tokens.size() - 1);
        text.next.insert(text.next.end(), s.tokens.begin() + 1, s.tokens.end());
        text.surprise += s.surprise;
    }
    text.surprise /= double(text.next.size());
    return text;
}

// The largest difference of a gradient from central differences, in double precision, over the largest gradient of its
// parameter; a few elements of each parameter are compared.
double gradient_error() {
    Transformer<double> model(sizes);
    const Text text = write(3);
    model.learn(context, text.packed, text.next);
    const auto loss = [&] { return model.mean_loss(model.forward(context, text.packed), text.next); };
    double worst = 0;
    model.each_parameter([&](const char *, ParameterOf<double> &p) {
        constexpr double h = 1e-5;
        double largest = 0;
        for (double g : p.gradient.numbers) largest = std::max(largest, std::abs(g));
        for (int n = 0; n < 4; n++) {
            const std::size_t at = random_engine()() % p.value.numbers.size();
            double &x = p.value.numbers[at];
            const double before = x;
            x = before + h;
            const double above = loss();
            x = before - h;
            const double below = loss();
            x = before;
            worst = std::max(worst, std::abs((above - below) / (2 * h) - p.gradient.numbers[at]) / largest);
        }
    });
    return worst;
}

// Sentences that the model writes, word by word, drawn from its probabilities: a packed batch of prefixes.
std::vector<std::vector<std::int32_t>> speak(Transformer<float> &model, std::size_t count) {
    constexpr std::size_t most = 24;
    std::vector<std::vector<std::int32_t>> sentences(count, {grammar::stop});
    const auto ended = [&](const auto &s) { return (s.size() > 1 && s.back() == grammar::stop) || s.size() == most; };
    for (bool any = true; any;) {
        Packed packed;
        std::vector<std::size_t> open;
        for (std::size_t n = 0; n < count; n++)
            if (!ended(sentences[n])) open.push_back(n), packed.add(sentences[n].data(), sentences[n].size());
        any = !open.empty();
        const Array probabilities = model.forward(context, packed);
        for (std::size_t n = 0; n < open.size(); n++) {
            const auto row = probabilities.numbers.begin() + (packed.ends[n + 1] - 1) * sizes.vocabulary;
            std::discrete_distribution<std::int32_t> word(row, row + sizes.vocabulary);
            sentences[open[n]].push_back(word(random_engine()));
        }
    }
    return sentences;
}
}  // namespace

int main() {
    const double error = gradient_error();
    std::printf("largest difference of gradients from finite differences: %.1e of the largest gradient\n", error);
    show("they are the same, but for 1e-6", error < 1e-6 ? "yes" : "no", "yes");

    constexpr int sentences = 64, most_steps = 1500;
    constexpr float rate = 3e-3f;
    constexpr double enough = 0.01;
    Transformer<float> model(sizes);
    double smoothed = std::log(double(sizes.vocabulary));  // the loss over that of a reader who knows the language
    std::printf("loss of a guess: %.3f\n", smoothed);
    int count = 0;
    while (smoothed > enough && count < most_steps) {
        const Text text = write(sentences);
        const double loss = model.learn(context, text.packed, text.next);
        smoothed += 0.1 * (loss - text.surprise - smoothed);
        model.step(++count, rate);
        if (count % 50 == 0) std::printf("  step %4d: loss %.3f, that of the language %.3f\n", count, loss, text.surprise);
    }
    std::printf("%d steps: %.3f above the language's own\n", count, smoothed);
    show("the loss has fallen to that of the language, but for 0.01", smoothed <= enough ? "yes" : "no", "yes");

    int right = 0;
    const auto spoken = speak(model, 200);
    for (const auto &s : spoken) right += grammar::Reader(s).accepts();
    for (int n = 0; n < 4; n++) std::printf("  it says: %s\n", grammar::text_of(spoken[std::size_t(n)]).c_str());
    std::printf("%d of 200 sentences that it makes are of the language\n", right);
    show("at least 95 of 100 are", right >= 190 ? "yes" : "no", "yes");
    return exit_code();
}
