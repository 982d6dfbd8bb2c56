// SPDX-License-Identifier: MIT
#include "engine.h"
#include <algorithm>

namespace language_model {
namespace {

using Clock = std::chrono::steady_clock;

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace

void Engine::submit(Request request) {
    const std::int64_t page = pool_.sizes().page, longest = std::int64_t(1) << 30;
    const std::int64_t most = std::int64_t(request.prompt.size()) + std::min(request.most, longest);
    if (request.prompt.empty()) throw Failure("request " + request.name + " has no tokens");
    if (request.most < 1) throw Failure("request " + request.name + " asks for no tokens");
    for (const std::int32_t token : request.prompt)
        if (token < 0 || token >= model_.sizes().vocabulary)
            throw Failure("request " + request.name + ": the model has no token " + std::to_string(token));
    if (most > model_.sizes().positions || (most + page - 1) / page > pool_.sizes().pages)
        throw Failure("request " + request.name + " may have " + std::to_string(most) + " tokens; the model takes " +
                      std::to_string(model_.sizes().positions) + ", the cache " + std::to_string(pool_.sizes().pages * page));
    waiting_.push_back(std::move(request));
}

// A prompt that begins like one that is being read waits until it can share its pages.
bool Engine::waits_for_prefix(const Request &request) const {
    const std::size_t page = std::size_t(pool_.sizes().page);
    if (!options_.share || request.prompt.size() <= page) return false;
    return std::any_of(running_.begin(), running_.end(), [&](const Running &other) {
        return other.reading() && other.request.prompt.size() > page &&
               std::equal(request.prompt.begin(), request.prompt.begin() + std::ptrdiff_t(page), other.request.prompt.begin());
    });
}

// Starts a request if the pool has room for its longest answer, so that no request is ever stopped for want of pages.
bool Engine::start(const Request &request) {
    const std::int64_t page = pool_.sizes().page;
    std::vector<std::int32_t> pages;
    // Its last token is always computed, for the logits behind it.
    const std::int64_t most_shared = options_.share ? (std::int64_t(request.prompt.size()) - 1) / page : 0;
    const std::span<const std::int32_t> prompt(request.prompt);
    std::int64_t taken_from_free = 0;
    while (std::int64_t(pages.size()) < most_shared) {
        const std::int32_t found =
            table_.find(pages.empty() ? -1 : pages.back(), prompt.subspan(pages.size() * std::size_t(page), std::size_t(page)));
        if (found < 0) break;
        if (table_.is_free(found)) taken_from_free++;
        pages.push_back(found);
    }
    const std::int64_t shared = std::int64_t(pages.size());
    const std::int64_t needed = (std::int64_t(request.prompt.size()) + request.most + page - 1) / page;
    if (needed - shared + taken_from_free > table_.free_pages()) return false;
    for (const std::int32_t found : pages) table_.hold(found);
    while (std::int64_t(pages.size()) < needed) pages.push_back(table_.take());

    Running running{.request = request,
                    .sampler = Sampler(request.sampling),
                    .tokens = request.prompt,
                    .pages = std::move(pages),
                    .held = shared * page,
                    .published = shared,
                    .started = Clock::now(),
                    .report = {}};
    running.report.name = request.name;
    running.report.prompt = std::int64_t(request.prompt.size());
    running.report.shared = running.held;
    running_.push_back(std::move(running));
    return true;
}

void Engine::start_waiting() {
    while (!waiting_.empty() && std::int64_t(running_.size()) < options_.requests && !waits_for_prefix(waiting_.front()) &&
           start(waiting_.front()))
        waiting_.pop_front();
}

// The rows of the next pass, and the request of each sequence.
std::vector<Engine::Running *> Engine::gather(Batch &batch) {
    std::vector<Running *> sequences;
    std::int64_t room = options_.chunk;
    for (Running &running : running_) {
        const bool reading = running.reading();
        const std::int64_t left = std::int64_t(running.tokens.size()) - running.held;
        const std::int64_t rows = reading ? std::min(left, room) : 1;
        if (rows == 0) continue;
        if (reading) room -= rows;
        batch.add(std::span(running.tokens).subspan(std::size_t(running.held), std::size_t(rows)), running.held, running.pages,
                  pool_.sizes().page);
        if (rows == left) batch.wanted.push_back(batch.ends.back() - 1);
        sequences.push_back(&running);
    }
    return sequences;
}

void Engine::step(const Listener &listener) {
    start_waiting();
    Batch batch;
    const std::vector<Running *> sequences = gather(batch);
    model_.forward(batch, pool_, options_.forward, logits_);

    const std::size_t vocabulary = std::size_t(model_.sizes().vocabulary);
    std::size_t row = 0;
    for (std::size_t b = 0; b < sequences.size(); b++) {
        Running &running = *sequences[b];
        running.held = batch.lens[b];
        publish(running);
        if (running.held < std::int64_t(running.tokens.size())) continue;  // the prompt goes on
        const std::span<const float> logits(logits_.data() + row++ * vocabulary, vocabulary);
        const std::int32_t token = running.sampler.next(logits);
        if (running.report.answer++ == 0) running.answering = Clock::now();
        running.tokens.push_back(token);
        listener.token(running.request.name, token, logits[std::size_t(token)]);
        const std::vector<std::int32_t> &stops = running.request.stops;
        if (running.report.answer == running.request.most || std::find(stops.begin(), stops.end(), token) != stops.end())
            finish(running, listener);
    }
}

// Lets other requests find the pages that have become full.
void Engine::publish(Running &running) {
    const std::int64_t page = pool_.sizes().page;
    for (std::int64_t &n = running.published; options_.share && (n + 1) * page <= running.held; n++)
        table_.publish(running.pages[std::size_t(n)], n == 0 ? -1 : running.pages[std::size_t(n - 1)],
                       std::span(running.tokens).subspan(std::size_t(n * page), std::size_t(page)));
}

void Engine::finish(Running &running, const Listener &listener) {
    Report &report = running.report;
    report.prompt_seconds = seconds(running.answering - running.started);
    report.answer_seconds = seconds(Clock::now() - running.answering);
    report.cache_bytes = (running.held + pool_.sizes().page - 1) / pool_.sizes().page * pool_.bytes_of_page();
    // The last page first: a page is of no use to others without those before it.
    for (auto page = running.pages.rbegin(); page != running.pages.rend(); ++page) table_.release(*page);
    listener.done(report);
    running_.remove_if([&](const Running &other) { return &other == &running; });
}

}  // namespace language_model
