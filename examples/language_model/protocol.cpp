// SPDX-License-Identifier: MIT
#include "protocol.h"
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <unistd.h>

namespace language_model {
namespace {

// Takes the next word, up to a space or `separator`.
std::string_view take_word(std::string_view &text, char separator = ' ') {
    while (!text.empty() && (text.front() == ' ' || text.front() == separator)) text.remove_prefix(1);
    std::size_t length = 0;
    while (length < text.size() && text[length] != ' ' && text[length] != separator) length++;
    const std::string_view word = text.substr(0, length);
    text.remove_prefix(length);
    return word;
}

template<typename Number> Number parsed(std::string_view text, std::string_view what) {
    Number number = {};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        throw Failure(std::string(what) + ": expected a number, got '" + std::string(text) + "'");
    return number;
}

}  // namespace

std::int64_t integer_of(std::string_view text, std::string_view what) { return parsed<std::int64_t>(text, what); }
double number_of(std::string_view text, std::string_view what) { return parsed<double>(text, what); }

std::vector<std::int32_t> parse_tokens(std::string_view text) {
    std::vector<std::int32_t> tokens;
    while (!text.empty()) {
        const std::string_view word = take_word(text);
        if (!word.empty()) tokens.push_back(parsed<std::int32_t>(word, "token"));
    }
    return tokens;
}

Request parse_request(std::string_view line, std::string &name) {
    Request request;
    request.name = name = std::string(take_word(line));
    for (std::string_view word = take_word(line); word != ":"; word = take_word(line)) {
        if (word.empty()) throw Failure("there is no ':' before the tokens");
        const std::size_t equals = std::min(word.find('='), word.size());
        const std::string_view key = word.substr(0, equals);
        std::string_view value = word.substr(std::min(equals + 1, word.size()));
        if (key == "max")
            request.most = integer_of(value, key);
        else if (key == "temperature")
            request.sampling.temperature = number_of(value, key);
        else if (key == "top_p")
            request.sampling.top_p = number_of(value, key);
        else if (key == "seed")
            request.sampling.seed = parsed<std::uint64_t>(value, key);
        else if (key == "stop")
            while (!value.empty()) request.stops.push_back(parsed<std::int32_t>(take_word(value, ','), key));
        else
            throw Failure("unknown word '" + std::string(word) + "'");
    }
    const Sampling &s = request.sampling;
    if (!(s.temperature >= 0 && s.temperature <= 100)) throw Failure("temperature must be from 0 to 100");
    if (!(s.top_p > 0 && s.top_p <= 1)) throw Failure("top_p must be above 0 and at most 1");
    request.prompt = parse_tokens(line);
    return request;
}

std::string token_line(const std::string &name, std::int32_t token, float logit) {
    char text[64];
    std::snprintf(text, sizeof text, " token %d %a", int(token), double(logit));
    return name + text;
}

std::string done_line(const Report &r) {
    char text[256];
    std::snprintf(text, sizeof text,
                  " done prompt=%lld shared=%lld answer=%lld prompt_seconds=%.6f answer_seconds=%.6f cache_bytes=%lld",
                  static_cast<long long>(r.prompt), static_cast<long long>(r.shared), static_cast<long long>(r.answer),
                  r.prompt_seconds, r.answer_seconds, static_cast<long long>(r.cache_bytes));
    return r.name + text;
}

std::vector<std::string> InputLines::take(bool wait) {
    std::vector<std::string> lines;
    while (!ended_) {
        pollfd input = {STDIN_FILENO, POLLIN, 0};
        const int ready = poll(&input, 1, wait && lines.empty() ? -1 : 0);
        if (ready < 0 && errno == EINTR) continue;
        if (ready <= 0) break;
        char block[1 << 16];
        const ssize_t bytes = read(STDIN_FILENO, block, sizeof block);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes <= 0)
            ended_ = true;
        else
            rest_.append(block, std::size_t(bytes));
        if (ended_ && !rest_.empty()) rest_ += '\n';
        std::size_t first = 0;
        for (std::size_t end; (end = rest_.find('\n', first)) != std::string::npos; first = end + 1)
            if (end > first) lines.push_back(rest_.substr(first, end - first));
        rest_.erase(0, first);
    }
    return lines;
}

}  // namespace language_model
