// SPDX-License-Identifier: MIT
// Requests and answers as lines of text, so that any process that has a tokenizer can talk to the engine.
//
//   request   NAME [max=N] [temperature=T] [top_p=P] [seed=N] [stop=TOKEN[,TOKEN...]] : TOKEN TOKEN ...
//   answer    NAME token TOKEN LOGIT                a line for each token, as soon as it is there; the logit in hexadecimal
//             NAME done prompt=N shared=N answer=N prompt_seconds=S answer_seconds=S cache_bytes=N
//             NAME ran FUNCTION VARIANT CALLS         with --variants, before "done"
//             NAME refused: WHY
#pragma once
#include "engine.h"
#include <string>
#include <string_view>
#include <vector>

namespace language_model {

// The request of a line; Failure names the fault of a malformed one. `name` is set as soon as the name has been read.
Request parse_request(std::string_view line, std::string &name);
// Numbers of tokens, separated by spaces.
std::vector<std::int32_t> parse_tokens(std::string_view text);
std::string token_line(const std::string &name, std::int32_t token, float logit);
std::string done_line(const Report &);

// Lines of standard input, without waiting for more than there are.
class InputLines {
public:
    // The lines that have arrived; `wait` for at least one, or for the end.
    std::vector<std::string> take(bool wait);
    bool ended() const { return ended_; }

private:
    std::string rest_;
    bool ended_ = false;
};

// A number that fills the whole text.
std::int64_t integer_of(std::string_view text, std::string_view what);
double number_of(std::string_view text, std::string_view what);

}  // namespace language_model
