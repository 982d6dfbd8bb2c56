// SPDX-License-Identifier: MIT
// Continuous batching (Yu et al., 2022: Orca): requests come and go between forward passes. Each pass has one row of every
// request that is being answered, and a chunk of the prompts that are being read.
#pragma once
#include "model.h"
#include "sampler.h"
#include <chrono>
#include <deque>
#include <functional>
#include <list>
#include <string>

namespace language_model {

struct Request {
    std::string name;
    std::vector<std::int32_t> prompt;
    std::int64_t most = 128;          // tokens of the answer
    std::vector<std::int32_t> stops;  // tokens that end it
    Sampling sampling;
};

// A request that is done.
struct Report {
    std::string name;
    std::int64_t prompt = 0, shared = 0, answer = 0;  // tokens; `shared` of the prompt were in the cache
    double prompt_seconds = 0, answer_seconds = 0;    // from its first chunk to its first token, and from there to its last
    std::int64_t cache_bytes = 0;                     // of the pages that it held
};

struct Listener {
    std::function<void(const std::string &name, std::int32_t token, float logit)> token;
    std::function<void(const Report &)> done;
};

struct EngineOptions {
    std::int64_t chunk = 256;    // rows of prompts in a pass
    std::int64_t requests = 16;  // at a time; others wait
    bool share = true;           // prompts that begin alike share pages
    ForwardOptions forward;
};

class Engine {
public:
    Engine(Model &model, PagePool &pool, const EngineOptions &options)
        : model_(model), pool_(pool), options_(options), table_(pool.sizes().pages) {}
    // A request that the pool can never hold, or whose tokens the model lacks, is refused by a Failure.
    void submit(Request);
    bool idle() const { return waiting_.empty() && running_.empty(); }
    // One forward pass.
    void step(const Listener &);

private:
    struct Running {
        Request request;
        Sampler sampler;
        std::vector<std::int32_t> tokens, pages;  // prompt and answer; the pages that hold them, with room for the longest
        std::int64_t held = 0;                    // tokens whose keys and values are in the pages
        std::int64_t published = 0;               // pages that others can find
        std::chrono::steady_clock::time_point started, answering = {};
        Report report;
        bool reading() const { return held + 1 < std::int64_t(tokens.size()) || report.answer == 0; }
    };
    void start_waiting();
    bool start(const Request &);
    bool waits_for_prefix(const Request &) const;
    std::vector<Running *> gather(Batch &);
    void publish(Running &);
    void finish(Running &, const Listener &);

    Model &model_;
    PagePool &pool_;
    EngineOptions options_;
    PageTable table_;
    std::deque<Request> waiting_;
    std::list<Running> running_;
    std::vector<float> logits_;
};

}  // namespace language_model
