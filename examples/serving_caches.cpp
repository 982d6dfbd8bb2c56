// SPDX-License-Identifier: MIT
// Serving: prompts of different lengths in one packed call, then a step at a time over caches, for two requests at once. The
// model's weights are set by hand: it looks for the last place where its last word stood, and repeats the word after that
// place. The key of a position is the word before it, its value the word itself, and a query the last word.
#include "show.h"
#include <algorithm>

using namespace examples;
using attune::Causal, attune::ConstView, attune::View;

namespace {
const std::vector<std::string> vocabulary = {"one", "two", "three", "four", "tick", "tock"};
constexpr std::int64_t width = 8, capacity = 16;
using Words = std::vector<int>;

// Rows of one head; a word is a unit vector.
void put(Array &rows, std::int64_t row, int word, float length = 1) {
    if (word >= 0) rows.numbers[std::size_t(row * width + word)] = length;
}
void put_key(Array &key, Array &value, std::int64_t row, const Words &words, std::size_t at) {
    put(key, row, at > 0 ? words[at - 1] : -1);
    put(value, row, words[at]);
}
int word_of(const Array &out, std::int64_t row) {
    const auto first = out.numbers.begin() + row * width;
    return int(std::max_element(first, first + width) - first);
}
std::string text_of(const Words &words) {
    std::string text;
    for (int word : words) text += (text.empty() ? "" : " ") + vocabulary[std::size_t(word)];
    return text;
}
}  // namespace

int main() {
    attune::Context context;
    std::vector<Words> requests = {{0, 1, 2, 3, 0}, {4, 5, 4}};
    const std::int64_t batch = 2, longest = 5, total = 8;
    Array key_cache({batch, 1, capacity, width}), value_cache({batch, 1, capacity, width});

    // The prompts, packed for the attention, and padded for the caches.
    const std::vector<std::int32_t> ends = {0, 5, 8}, lengths = {5, 3};
    Array query({total, 1, width}), key = query, value = query, out = query;
    Array padded_key({batch, 1, longest, width}), padded_value = padded_key;
    for (std::size_t b = 0; b < requests.size(); b++)
        for (std::size_t n = 0; n < requests[b].size(); n++) {
            const std::int64_t row = ends[b] + std::int64_t(n), padded_row = std::int64_t(b) * longest + std::int64_t(n);
            put(query, row, requests[b][n], 30);
            put_key(key, value, row, requests[b], n);
            put_key(padded_key, padded_value, padded_row, requests[b], n);
        }
    require(attune::variable_length_attention(context, query, key, value, ends, ends, out,
                                              {.scale = 1, .causal = Causal::bottom_right}));
    std::vector<std::int32_t> held = {0, 0};
    require(attune::kv_append(context, padded_key, padded_value, held, key_cache, value_cache, {.new_lens = lengths}));
    held = lengths;
    for (std::size_t b = 0; b < requests.size(); b++) requests[b].push_back(word_of(out, ends[b + 1] - 1));
    std::printf("the word after each prompt\n");
    show("first", text_of(requests[0]), "one two three four one two");
    show("second", text_of(requests[1]), "tick tock tick tock");

    // Steps of one word: append it, and attend to all cached words.
    for (int step = 0; step < 6; step++) {
        Array q({batch, 1, 1, width}), k = q, v = q, o = q;
        for (std::size_t b = 0; b < requests.size(); b++) {
            put(q, std::int64_t(b), requests[b].back(), 30);
            put_key(k, v, std::int64_t(b), requests[b], requests[b].size() - 1);
        }
        require(attune::kv_append(context, k, v, held, key_cache, value_cache));
        require(attune::scaled_dot_product_attention(context, q, key_cache, value_cache, o,
                                                     {.scale = 1, .causal = Causal::bottom_right, .cache_lens = held}));
        for (std::size_t b = 0; b < requests.size(); b++) {
            held[b]++;
            requests[b].push_back(word_of(o, std::int64_t(b)));
        }
    }
    std::printf("six steps later\n");
    show("first", text_of(requests[0]), "one two three four one two three four one two three four");
    show("second", text_of(requests[1]), "tick tock tick tock tick tock tick tock tick tock");
    show("rows in the caches", std::to_string(held[0]) + " and " + std::to_string(held[1]), "11 and 9");

    // A context in two parts, such as one shared by all requests and one of each request: two calls, merged.
    Array q = normal({batch, 1, 1, width}), whole = q, o[2] = {q, q}, merged = q;
    Array lse({batch, 1, 1}), lses[2] = {lse, lse};
    const std::int64_t split = 6;
    require(attune::scaled_dot_product_attention(context, q, key_cache, value_cache, whole, {.valid_lens = held}));
    for (int part = 0; part < 2; part++) {
        const std::int64_t first = part ? split : 0, rows = part ? capacity - split : split;
        std::vector<std::int32_t> lens;
        for (std::int32_t n : held) lens.push_back(std::clamp<std::int32_t>(n - std::int32_t(first), 0, std::int32_t(rows)));
        const auto rows_of = [&](const Array &cache) {
            return ConstView(&cache.numbers[std::size_t(first * width)], {batch, 1, rows, width},
                             {capacity * width, capacity * width, width, 1});
        };
        require(attune::scaled_dot_product_attention(context, q, rows_of(key_cache), rows_of(value_cache), o[part],
                                                     {.valid_lens = lens, .lse = lses[part]}));
    }
    require(attune::merge_attention(context, o[0], lses[0], o[1], lses[1], merged));
    float apart = 0;
    for (std::size_t n = 0; n < whole.numbers.size(); n++)
        apart = std::max(apart, std::abs(whole.numbers[n] - merged.numbers[n]));
    std::printf("attention over six rows and over the others, merged\n");
    show("differs from attention over all by rounding only", apart < 1e-6f ? "yes" : "no", "yes");
    return exit_code();
}
