// The worked examples of the documents that the project starts from, expected beside computed, in f32 and in f64. Numbers
// of a document are written out; where its inputs are random, expected is a plain computation in double precision.
#include "plain_attention.h"
#include <algorithm>
#include <attune/attune.h>
#include <cstdio>
#include <limits>
#include <optional>
#include <random>
#include <string>

namespace {
using Numbers = std::vector<double>;

struct Tensors {
    Numbers query, key, value;
};
struct Settings {
    std::optional<double> scale = {};
    std::vector<std::int32_t> valid_lens = {};  // (B) or (B, Sq)
    bool look_ahead_mask = false;
    bool heads_are_strides = false;  // lay query, key and value out as (B, S, H, D)
};

int examples_run = 0, examples_wrong = 0;

std::string text_of(const double *numbers, int row) {
    std::string text = "[";
    char number[32];
    for (int n = 0; n < std::min(row, 4); n++) {
        const double value = std::abs(numbers[n]) < 5e-7 ? 0 : numbers[n];
        std::snprintf(number, sizeof number, "%s%.4g", n ? ", " : "", value);
        text += number;
    }
    return text + (row > 4 ? ", ...]" : "]");
}

// (B, H, S, D) to (B, S, H, D) in memory.
template<typename T>
std::vector<T> stored(const Numbers &from, int batch, int heads, int length, int dim, bool heads_are_strides) {
    std::vector<T> to(from.size());
    for (int b = 0; b < batch; b++)
        for (int h = 0; h < heads; h++)
            for (int s = 0; s < length; s++)
                for (int d = 0; d < dim; d++) {
                    const int dense = ((b * heads + h) * length + s) * dim + d;
                    to[heads_are_strides ? ((b * length + s) * heads + h) * dim + d : dense] = T(from[dense]);
                }
    return to;
}
template<typename T>
attune::ConstView view_of(const std::vector<T> &data, int batch, int heads, int length, int dim, bool heads_are_strides) {
    if (!heads_are_strides) return {data.data(), {batch, heads, length, dim}};
    return {data.data(), {batch, heads, length, dim}, {length * heads * dim, dim, heads * dim, 1}};
}

struct Answer {
    attune::Status status;
    Numbers out;
    double worst = 0;
    bool good = false;
};

template<typename T> Answer compute(const Sizes &n, const Tensors &in, const Settings &settings, const Numbers &expected) {
    const bool by_strides = settings.heads_are_strides;
    const auto query = stored<T>(in.query, n.batch, n.heads, n.queries, n.head_dim, by_strides);
    const auto key = stored<T>(in.key, n.batch, n.heads, n.keys, n.head_dim, by_strides);
    const auto value = stored<T>(in.value, n.batch, n.heads, n.keys, n.value_dim, by_strides);
    std::vector<T> out(expected.size());

    attune::SdpaOptions options;
    options.scale = settings.scale;
    if (settings.look_ahead_mask) options.causal = attune::Causal::top_left;
    if (settings.valid_lens.size() > std::size_t(n.batch))
        options.valid_lens = {settings.valid_lens.data(), {n.batch, n.queries}};
    else if (!settings.valid_lens.empty())
        options.valid_lens = {settings.valid_lens.data(), {n.batch}};
    static attune::Context context;
    Answer answer;
    answer.status =
        attune::scaled_dot_product_attention(context, view_of(query, n.batch, n.heads, n.queries, n.head_dim, by_strides),
                                             view_of(key, n.batch, n.heads, n.keys, n.head_dim, by_strides),
                                             view_of(value, n.batch, n.heads, n.keys, n.value_dim, by_strides),
                                             attune::View(out.data(), {n.batch, n.heads, n.queries, n.value_dim}), options);
    answer.out.assign(out.begin(), out.end());
    double largest = 0;
    for (std::size_t at = 0; at < expected.size(); at++) {
        const double off = std::abs(expected[at] - answer.out[at]);
        answer.worst = std::isnan(off) ? INFINITY : std::fmax(answer.worst, off);
        largest = std::fmax(largest, std::abs(expected[at]));
    }
    answer.good = answer.status.ok() && answer.worst <= 16 * std::numeric_limits<T>::epsilon() * largest;
    return answer;
}

// Stands for the numbers that the plain computation gives.
const Numbers by_computation;

void run(const char *document, const char *what, const Sizes &n, const Tensors &in, Numbers expected = by_computation,
         const Settings &settings = {}) {
    const bool written_out = !expected.empty();
    const auto keep = [&](int b, int i, int j) {
        const auto &lens = settings.valid_lens;
        if (settings.look_ahead_mask && j > i) return false;
        return lens.empty() || j < lens[lens.size() > std::size_t(n.batch) ? b * n.queries + i : b];
    };
    if (!written_out)
        expected = plain_attention(n, in.query, in.key, in.value, settings.scale.value_or(1 / std::sqrt(n.head_dim)), keep);
    const auto f32 = compute<float>(n, in, settings, expected);
    const auto f64 = compute<double>(n, in, settings, expected);
    examples_run++, examples_wrong += !(f32.good && f64.good);

    std::printf("%s  %s\n", document, what);
    const int rows = int(expected.size()) / n.value_dim, shown = std::min(rows, written_out ? 4 : 2);
    for (int row = 0; row < shown; row++) {
        const auto text = [&](const Numbers &all) { return text_of(&all[row * n.value_dim], n.value_dim); };
        std::printf("     %s %-40s %s %s\n", row ? "        " : "expected", text(expected).c_str(),
                    row ? "        " : "computed", text(f32.out).c_str());
    }
    if (shown < rows) std::printf("              and %d rows more\n", rows - shown);
    std::printf("     largest difference: f32 %.1e %s, f64 %.1e %s\n", f32.worst, f32.good ? "ok" : "WRONG", f64.worst,
                f64.good ? "ok" : "WRONG");
    for (const auto &status : {f32.status, f64.status})
        if (!status.ok()) std::printf("     %s\n", status.message().c_str());
    std::printf("\n");
}

Numbers normal(int count) {
    static std::mt19937 engine(42);
    std::normal_distribution<double> distribution;
    Numbers numbers(count);
    // Representable in f32, so that both types start from the same inputs.
    for (double &number : numbers) number = static_cast<float>(distribution(engine));
    return numbers;
}
// The values that make the output the weights.
Numbers identity(int batch, int size) {
    Numbers numbers(batch * size * size);
    for (int at = 0; at < batch * size; at++) numbers[at * size + at % size] = 1;
    return numbers;
}

void scoring_functions() {
    std::printf("000: attention scoring functions\n\n");
    // softmax of given scores: queries are the scores, keys and values the identity, scale 1.
    const Tensors scores{normal(2 * 2 * 4), identity(2, 4), identity(2, 4)};
    const Sizes sizes{2, 1, 2, 4, 4, 4};
    run("000", "masked softmax of scores (2,2,4), valid_lens [2,3]", sizes, scores, by_computation,
        {.scale = 1.0, .valid_lens = {2, 3}});
    run("000", "masked softmax, a length per query [[1,3],[2,4]]", sizes, scores, by_computation,
        {.scale = 1.0, .valid_lens = {1, 3, 2, 4}});
    Numbers value(2 * 10 * 4);
    for (int at = 0; at < 80; at++) value[at] = at % 40;
    run("000", "dot-product attention, valid_lens [2,6]", {2, 1, 1, 10, 2, 4}, {normal(2 * 2), Numbers(2 * 10 * 2, 1.0), value},
        {2, 3, 4, 5, 10, 11, 12, 13}, {.valid_lens = {2, 6}});
}

void scaled_dot_product() {
    std::printf("002: scaled dot-product and multi-head attention\n\n");
    const Numbers key = {10, 0, 0, 0, 10, 0, 0, 0, 10, 0, 0, 10}, value = {1, 0, 10, 0, 100, 5, 1000, 6};
    const Numbers queries = {0, 0, 10, 0, 10, 0, 10, 10, 0};
    const Sizes one{1, 1, 1, 4, 3, 2}, three{1, 1, 3, 4, 3, 2};
    run("002", "q [0,10,0], output", one, {{0, 10, 0}, key, value}, {10, 0});
    run("002", "q [0,0,10], output", one, {{0, 0, 10}, key, value}, {550, 5.5});
    run("002", "q [10,10,0], output", one, {{10, 10, 0}, key, value}, {5.5, 0});
    run("002", "the three queries at once, output", three, {queries, key, value}, {550, 5.5, 10, 0, 5.5, 0});
    run("002", "the three queries at once, weights", {1, 1, 3, 4, 3, 4}, {queries, key, identity(1, 4)},
        {0, 0, .5, .5, 0, 1, 0, 0, .5, .5, 0, 0});
    run("002", "padding mask: q [0,0,10], the last key masked", one, {{0, 0, 10}, key, value}, {100, 5}, {.valid_lens = {3}});
    run("002", "look-ahead mask: the keys are the queries", {1, 1, 4, 4, 3, 2}, {key, key, value},
        {1, 0, 10, 0, 100, 5, 550, 5.5}, {.look_ahead_mask = true});
    const Numbers y = normal(60 * 512);
    run("002", "8 heads of d_model 512, y (1,60,512) as (1,8,60,64) by strides", {1, 8, 60, 60, 64, 64}, {y, y, y},
        by_computation, {.heads_are_strides = true});
    run("002", "the same with 62 queries", {1, 8, 62, 60, 64, 64}, {normal(62 * 512), y, y}, by_computation,
        {.heads_are_strides = true});
}

void step_by_step() {
    std::printf("004: attention scores, step by step\n\n");
    const Numbers decoder = normal(3 * 10 * 18), encoder = normal(3 * 9 * 18);
    const Numbers state(decoder.begin(), decoder.begin() + 18), states(encoder.begin(), encoder.begin() + 9 * 18);
    run("004", "one decoder state, 9 encoder states, weights", {1, 1, 1, 9, 18, 9}, {state, states, identity(1, 9)});
    run("004", "one decoder state, 9 encoder states, context", {1, 1, 1, 9, 18, 18}, {state, states, states});
    run("004", "batch 3, 10 queries, 9 keys, width 18, weights", {3, 1, 10, 9, 18, 9}, {decoder, encoder, identity(3, 9)});
    run("004", "batch 3, 10 queries, 9 keys, width 18, context", {3, 1, 10, 9, 18, 18}, {decoder, encoder, encoder});
    run("004", "the weights of a query sum to 1", {3, 1, 10, 9, 18, 1}, {decoder, encoder, Numbers(3 * 9, 1.0)},
        Numbers(3 * 10, 1.0));
}
}  // namespace

int main() {
    std::printf("A difference may be 16 roundings of the largest number expected.\n\n");
    scoring_functions();
    scaled_dot_product();
    step_by_step();
    std::printf("%d worked examples, %d wrong\n", examples_run, examples_wrong);
    return examples_wrong ? 1 : 0;
}
