// SPDX-License-Identifier: MIT
// Numbers as text.
#include "numbers.h"
#include "tools/error.h"
#include <charconv>

namespace attune::tune {

Numbers parse_numbers(const std::string &text) {
    Numbers numbers;
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
            throw program::InputError("numbers", "expected name=number, is \"" + word + "\"");
        if (!numbers.emplace(word.substr(0, equals), value).second)
            throw program::InputError("numbers", word.substr(0, equals) + " is given twice");
    }
    return numbers;
}

std::string text_of(const Numbers &numbers) {
    std::string text;
    for (const auto &[name, value] : numbers) text += (text.empty() ? "" : " ") + name + "=" + std::to_string(value);
    return text;
}

}  // namespace attune::tune
