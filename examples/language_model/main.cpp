// SPDX-License-Identifier: MIT
// Command line of the language model: requests in, tokens out.
#include "evaluate.h"
#include "protocol.h"
#include <algorithm>
#include <cmath>
#include <cstdio>

namespace {
using namespace language_model;

const char *const usage =
    R"(usage: language_model MODEL.safetensors [options]     (convert.py writes such files)
Answers the requests on standard input, a line each, in the form that protocol.h describes.

  --cache f32|bf16|int8|int4   type of the cache of keys and values (default: the type of the weights)
  --context N                  rows of the cache, of all requests together (default 8192)
  --page N                     rows of a page, a multiple of 16 (default 64)
  --chunk N                    rows of prompts in a pass (default 256)
  --requests N                 requests at a time (default 16)
  --window N                   a token sees itself and the N - 1 before it
  --invariant                  the same bits however prompts are cut into chunks
  --no-sharing                 prompts that begin alike do not share pages
  --threads N                  (default: all cores)
  --variants                   before each "done" a line for each function and variant that ran so far, with its calls

Over the tokens of one text, which standard input holds:
  --logits FILE.npy            writes the logits of every token, f32 (tokens, vocabulary)
  --perplexity                 prints the number of tokens that are predicted, and the perplexity
  --queries-keys LAYER PREFIX  writes PREFIXquery.npy and PREFIXkey.npy of a layer, for attune run sdpa
)";

struct Arguments {
    std::string model, cache, logits, prefix;
    std::int64_t context = 8192, page = 64, threads = 0, layer = -1;
    bool perplexity = false, variants = false;
    EngineOptions engine;
};

Arguments parse(int count, char **words) {
    Arguments a;
    int n = 1;
    const auto value = [&](std::string_view option) -> std::string {
        if (n + 1 >= count) throw Failure(std::string(option) + " needs a value");
        return words[++n];
    };
    const auto size = [&](std::string_view option, std::int64_t least) {
        const std::int64_t number = integer_of(value(option), option);
        if (number < least) throw Failure(std::string(option) + " must be at least " + std::to_string(least));
        if (number > 1 << 30) throw Failure(std::string(option) + " must be at most 2^30");
        return number;
    };
    for (; n < count; n++) {
        const std::string_view word = words[n];
        if (word == "--cache")
            a.cache = value(word);
        else if (word == "--context")
            a.context = size(word, 1);
        else if (word == "--page")
            a.page = size(word, 1);
        else if (word == "--chunk")
            a.engine.chunk = size(word, 1);
        else if (word == "--requests")
            a.engine.requests = size(word, 1);
        else if (word == "--window")
            a.engine.forward.window = size(word, 1);
        else if (word == "--invariant")
            a.engine.forward.invariant = true;
        else if (word == "--no-sharing")
            a.engine.share = false;
        else if (word == "--threads")
            a.threads = size(word, 0);
        else if (word == "--variants")
            a.variants = true;
        else if (word == "--logits")
            a.logits = value(word);
        else if (word == "--perplexity")
            a.perplexity = true;
        else if (word == "--queries-keys")
            a.layer = size(word, 0), a.prefix = value(word);
        else if (word.substr(0, 1) == "-" || !a.model.empty())
            throw Failure("unknown option " + std::string(word));
        else
            a.model = word;
    }
    if (a.model.empty()) throw Failure("no model is named");
    return a;
}

void say(const std::string &line) {
    std::fputs((line + "\n").c_str(), stdout);
    std::fflush(stdout);
}

void serve(Model &model, PagePool &pool, const EngineOptions &options, bool variants) {
    Engine engine(model, pool, options);
    InputLines input;
    const Listener listener = {
        [](const std::string &name, std::int32_t token, float logit) { say(token_line(name, token, logit)); },
        [&](const Report &report) {
            for (const auto &[call, times] : model.variants())
                if (variants) say(report.name + " ran " + call.first + " " + call.second + " " + std::to_string(times));
            say(done_line(report));
        }};
    say("ready");
    while (!engine.idle() || !input.ended()) {
        for (const std::string &line : input.take(engine.idle())) {
            std::string name;
            try {
                engine.submit(parse_request(line, name));
            } catch (const Failure &failure) {
                say(name + " refused: " + failure.what());
            }
        }
        if (!engine.idle()) engine.step(listener);
    }
}

std::vector<std::int32_t> text_on_input() {
    InputLines input;
    std::vector<std::int32_t> tokens;
    while (!input.ended())
        for (const std::string &line : input.take(true)) {
            const std::vector<std::int32_t> more = parse_tokens(line);
            tokens.insert(tokens.end(), more.begin(), more.end());
        }
    return tokens;
}

void run(const Arguments &a) {
    attune::ContextOptions resources;
    resources.threads = int(a.threads);
    attune::Context context(resources);
    require(context.status());
    const Weights weights(a.model);
    Model model(context, weights);
    const ModelSizes &s = model.sizes();
    const auto type = cache_type(a.cache.empty() ? attune::name_of(model.type()) : a.cache);
    if (!type) throw Failure("--cache must be f32, bf16, int8 or int4, got " + a.cache);
    PagePool pool({.type = *type,
                   .layers = s.layers,
                   .key_heads = s.key_heads,
                   .head_dim = s.head_dim,
                   .pages = (a.context + a.page - 1) / a.page,
                   .page = a.page});

    if (!a.logits.empty())
        write_logits(model, pool, a.engine, text_on_input(), a.logits);
    else if (a.layer >= 0)
        write_queries_and_keys(model, pool, a.engine, text_on_input(), a.layer, a.prefix);
    else if (a.perplexity) {
        const std::vector<std::int32_t> tokens = text_on_input();
        if (tokens.size() < 2) throw Failure("a perplexity needs two tokens or more");
        const double predicted = double(tokens.size() - 1);
        std::printf("%.0f %.9g\n", predicted, std::exp(surprise(model, pool, a.engine, tokens) / predicted));
    } else
        serve(model, pool, a.engine, a.variants);
}
}  // namespace

int main(int count, char **words) {
    if (count == 2 && (std::string_view(words[1]) == "--help" || std::string_view(words[1]) == "-h"))
        return std::fputs(usage, stdout), 0;
    try {
        run(parse(count, words));
        return 0;
    } catch (const std::exception &failure) {
        std::fprintf(stderr, "language_model: %s\n", failure.what());
        return 1;
    }
}
