// SPDX-License-Identifier: MIT
// A small serving engine: requests come and go, their keys and values stand in pages of a pool, and each step is one batch of
// chunks of prompts and of single words over all of them. Some requests begin with the same words, whose rows are held once.
// The model has random weights and one layer; each row of each step is compared with dense attention over the request's words.
#include "show.h"
#include <algorithm>
#include <deque>

using namespace examples;
using attune::View;

namespace {
constexpr std::int64_t vocabulary = 40, query_heads = 4, heads = 2, width = 64;
constexpr std::int64_t page = 16, pages = 20, chunk = 24;  // chunk: most rows of a request in a step
constexpr std::size_t prefix_rows = 32;                    // a multiple of 16
using Words = std::vector<int>;
using Ints = std::vector<std::int32_t>;

std::size_t pages_of(std::size_t rows) { return (rows + page - 1) / page; }

// Rows of queries, keys and values of each word, and its column of the last product.
struct Model {
    Array query = normal({vocabulary, query_heads *width}), key = normal({vocabulary, heads *width}),
          value = normal({vocabulary, heads *width}), last = normal({vocabulary, query_heads *width});

    int next_word(const float *out) const {
        std::vector<float> score(vocabulary);
        for (std::size_t n = 0; n < last.numbers.size(); n++)
            score[n / (query_heads * width)] += last.numbers[n] * out[n % (query_heads * width)];
        return int(std::max_element(score.begin(), score.end()) - score.begin());
    }
};
Array rows_of(const Array &table, const Words &words) {
    Array rows({std::int64_t(words.size()), table.shape[1] / width, width});
    auto to = rows.numbers.begin();
    for (int word : words) to = std::copy_n(table.numbers.begin() + word * table.shape[1], table.shape[1], to);
    return rows;
}

struct Request {
    Words words;      // the prompt, and the answer as it grows; without the shared prefix
    std::size_t end;  // words when it is done
    bool prefixed = false;
    Ints pages = {};
    std::size_t held = 0;  // rows in the pages

    std::size_t new_rows() const { return std::min(std::size_t(chunk), words.size() - held); }
    std::size_t before() const { return prefixed ? prefix_rows : 0; }
};

// Keys, or values: f32, or int8 with a scale for each row and head.
struct Rows {
    explicit Rows(bool int8) : int8(int8) {}
    bool int8;
    Array numbers = Array({int8 ? 0 : pages, page, heads, width}), scale = Array({int8 ? pages : 0, page, heads});
    ArrayOf<std::int8_t> bytes = ArrayOf<std::int8_t>({int8 ? pages : 0, page, heads, width});

    attune::Pages view() { return int8 ? attune::Pages(View(bytes), View(scale)) : attune::Pages(View(numbers)); }
};

// Rows as int8 holds them: q * scale, with scale = max |x| / 127.
void round_to_int8(Array &rows) {
    for (auto row = rows.numbers.begin(); row != rows.numbers.end(); row += width) {
        float largest = 0;
        for (auto x = row; x != row + width; ++x) largest = std::max(largest, std::abs(*x));
        const float scale = largest / 127;
        for (auto x = row; x != row + width; ++x) *x = std::nearbyint(*x / scale) * scale;
    }
}

class Engine {
public:
    explicit Engine(bool int8) : int8_(int8), keys_(int8), values_(int8) {
        require(attune::rope_tables(context_, 10000, 1, cos_, sin_));
        for (std::int32_t n = pages; n-- > 0;) free_.push_back(n);
        // The prefix is a request whose pages are never given back.
        for (std::size_t n = 0; n < prefix_rows; n++) prefix_.push_back(int(n * 7 % vocabulary));
        running_.push_back({prefix_, prefix_rows});
        while (running_[0].held < prefix_rows) attend();
        prefix_pages_ = running_[0].pages;
        running_.clear();
    }
    void add(const Request &request) { waiting_.push_back(request); }
    bool busy() const { return !waiting_.empty() || !running_.empty(); }
    void step();

    // Counts over all steps so far.
    std::size_t steps = 0, most_running = 0, most_pages = 0, words_answered = 0;
    float apart = 0;  // from dense attention
    std::size_t free_pages() const { return free_.size(); }

private:
    void attend();
    void compare(const Request &, const float *out, std::size_t rows);
    attune::RowSteps rope() const { return {.rope = {.cos = cos_, .sin = sin_}}; }

    const bool int8_;
    attune::Context context_;
    Model model_;
    Array cos_ = Array({256, width / 2}), sin_ = cos_;
    Rows keys_, values_;
    Ints free_, prefix_pages_;
    Words prefix_;
    std::deque<Request> waiting_;
    std::vector<Request> running_;
};

// One step of the engine: waiting requests are admitted in order while the pool has pages for all their words, one call of
// attention serves the running ones, and finished requests leave.
void Engine::step() {
    const auto promised = [&] {
        std::size_t count = 0;
        for (const Request &r : running_) count += pages_of(r.end) - r.pages.size();
        return count;
    };
    while (!waiting_.empty() && promised() + pages_of(waiting_.front().end) <= free_.size()) {
        running_.push_back(waiting_.front());
        waiting_.pop_front();
    }
    steps++, most_running = std::max(most_running, running_.size());
    attend();
    most_pages = std::max(most_pages, std::size_t(pages) - free_.size());
    const auto done = std::partition(running_.begin(), running_.end(), [](const Request &r) { return r.words.size() < r.end; });
    for (auto r = done; r != running_.end(); ++r) free_.insert(free_.end(), r->pages.begin(), r->pages.end());
    running_.erase(done, running_.end());
}

// Appends the new rows of all requests, and attends with their queries to all that each request holds.
void Engine::attend() {
    Words words;
    std::vector<std::int64_t> slots;
    Ints positions, ends = {0}, lens, prefix_of, prefix_lens = {std::int32_t(prefix_rows)};
    std::size_t widest = 1;
    for (Request &r : running_) {
        for (std::size_t n = 0; n < r.new_rows(); n++) {
            const std::size_t row = r.held + n;
            if (row / page == r.pages.size()) r.pages.push_back(free_.back()), free_.pop_back();
            words.push_back(r.words[row]);
            slots.push_back(std::int64_t(r.pages[row / page]) * page + std::int64_t(row % page));
            positions.push_back(std::int32_t(r.before() + row));
        }
        ends.push_back(std::int32_t(words.size()));
        lens.push_back(std::int32_t(r.held + r.new_rows()));
        prefix_of.push_back(r.prefixed ? 0 : -1);
        widest = std::max(widest, r.pages.size());
    }
    ArrayOf<std::int32_t> table({std::int64_t(running_.size()), std::int64_t(widest)}, -1);
    for (std::size_t b = 0; b < running_.size(); b++)
        std::copy(running_[b].pages.begin(), running_[b].pages.end(), table.numbers.begin() + std::int64_t(b * widest));
    const ArrayOf<std::int32_t> prefix_table({1, std::int64_t(prefix_pages_.size())}, prefix_pages_);

    Array query = rows_of(model_.query, words), out = query;
    require(attune::transform_rows(context_, query, positions, query, rope()));
    require(attune::paged_append(context_, rows_of(model_.key, words), rows_of(model_.value, words), slots, keys_.view(),
                                 values_.view(), {.key_steps = rope(), .positions = positions}));
    attune::PagedOptions options;
    if (!prefix_pages_.empty()) options.prefix = {.block_table = prefix_table, .lens = prefix_lens, .of = prefix_of};
    require(attune::paged_attention(context_, query, keys_.view(), values_.view(), ends, table, lens, out, options));

    for (std::size_t b = 0; b < running_.size(); b++) {
        Request &r = running_[b];
        const std::size_t rows = r.new_rows();
        const float *first = &out.numbers[std::size_t(ends[b]) * query_heads * width];
        r.held += rows;
        compare(r, first, rows);
        if (r.held == r.words.size() && r.held < r.end)
            r.words.push_back(model_.next_word(first + (rows - 1) * query_heads * width)), words_answered++;
    }
}

// Dense attention over the request's words, prefix included, whose last queries are the given rows.
void Engine::compare(const Request &r, const float *out, std::size_t rows) {
    Words words = r.prefixed ? prefix_ : Words();
    words.insert(words.end(), r.words.begin(), r.words.begin() + std::int64_t(r.held));
    Ints positions(words.size());
    for (std::size_t n = 0; n < words.size(); n++) positions[n] = std::int32_t(n);
    Array query = rows_of(model_.query, words), key = rows_of(model_.key, words), value = rows_of(model_.value, words);
    for (Array *x : {&query, &key}) require(attune::transform_rows(context_, *x, positions, *x, rope()));
    if (int8_) round_to_int8(key), round_to_int8(value);
    Array dense = query;
    const auto by_heads = [](Array &x) {  // (S, H, D) as (1, H, S, D)
        return View(x.numbers.data(), {1, x.shape[1], x.shape[0], width}, {0, width, x.shape[1] * width, 1});
    };
    require(attune::scaled_dot_product_attention(context_, by_heads(query), by_heads(key), by_heads(value), by_heads(dense),
                                                 {.causal = attune::Causal::bottom_right}));
    const float *expected = &dense.numbers[(words.size() - rows) * query_heads * width];
    for (std::size_t n = 0; n < rows * query_heads * width; n++) apart = std::max(apart, std::abs(out[n] - expected[n]));
}

void serve(bool int8) {
    Engine engine(int8);
    // Prompts of so many words, answers, and the steps at which the requests come.
    const struct {
        std::size_t step, prompt, answer;
        bool prefixed;
    } coming[] = {{0, 40, 6, false}, {0, 3, 12, true},  {1, 21, 9, true}, {1, 90, 5, false},
                  {3, 7, 20, true},  {4, 60, 4, false}, {5, 1, 8, true},  {9, 33, 7, false}};
    std::size_t next = 0;
    for (std::size_t now = 0; engine.busy() || next < std::size(coming); now++) {
        for (; next < std::size(coming) && coming[next].step <= now; next++) {
            Request request{{}, coming[next].prompt + coming[next].answer, coming[next].prefixed};
            for (std::size_t n = 0; n < coming[next].prompt; n++)
                request.words.push_back(int((next * 11 + n * n) % vocabulary));
            engine.add(request);
        }
        engine.step();
    }
    std::printf("eight requests over %s pages\n", int8 ? "int8" : "f32");
    show("steps", std::to_string(engine.steps), "23");
    show("words answered", std::to_string(engine.words_answered), "71");
    show("requests at once", std::to_string(engine.most_running), "6");
    show("pages in use at once, those of the prefix among them", std::to_string(engine.most_pages), "19");
    show("pages free at the end", std::to_string(engine.free_pages()), "18");
    show("differs from dense attention by rounding only", engine.apart < 1e-5f ? "yes" : "no", "yes");
}
}  // namespace

int main() {
    serve(false);
    serve(true);
    return exit_code();
}
