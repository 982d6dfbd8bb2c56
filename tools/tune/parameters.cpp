// SPDX-License-Identifier: MIT
// Text form of parameters.
#include "parameters.h"
#include "tools/error.h"
#include <charconv>

namespace attune::tune {

Parameters parse_parameters(const std::string &text) {
    Parameters parameters;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, end - at);
        at = end + 1;
        if (word.empty()) continue;
        const std::size_t equals = word.find('=');
        int value = 0;
        const char *first = word.data() + std::min(equals, word.size() - 1) + 1, *last = word.data() + word.size();
        const auto [stop, error] = std::from_chars(first, last, value);
        if (equals == std::string::npos || equals == 0 || error != std::errc() || stop != last)
            throw program::InputError("parameters", "expected name=number, is \"" + word + "\"");
        if (!parameters.emplace(word.substr(0, equals), value).second)
            throw program::InputError("parameters", word.substr(0, equals) + " is given twice");
    }
    return parameters;
}

std::string text_of(const Parameters &parameters) {
    std::string text;
    for (const auto &[name, value] : parameters) text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
    return text;
}

}  // namespace attune::tune
