// SPDX-License-Identifier: MIT
#include "hash.h"
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>

namespace attune::tune {
namespace {

// End of the literal that begins with a quote at `begin`: behind the closing quote, or, where there is none, behind the line.
std::size_t end_of_literal(const std::string &cpp, std::size_t begin) {
    const char quote = cpp[begin];
    if (quote == '"' && begin > 0 && cpp[begin - 1] == 'R') {
        const std::size_t open = cpp.find('(', begin);
        if (open == cpp.npos) return cpp.size();
        const std::string close = ")" + cpp.substr(begin + 1, open - begin - 1) + "\"";
        const std::size_t end = cpp.find(close, open);
        return end == cpp.npos ? cpp.size() : end + close.size();
    }
    std::size_t at = begin + 1;
    while (at < cpp.size() && cpp[at] != quote && cpp[at] != '\n') at += cpp[at] == '\\' ? 2 : 1;
    return std::min(at + 1, cpp.size());
}

// A quote behind a digit separates digits.
bool begins_literal(const std::string &cpp, std::size_t at) {
    if (cpp[at] != '\'') return cpp[at] == '"';
    return at == 0 || !std::isxdigit(static_cast<unsigned char>(cpp[at - 1]));
}

void end_line(std::string &code) {
    while (!code.empty() && (code.back() == ' ' || code.back() == '\t')) code.pop_back();
    if (!code.empty() && code.back() != '\n') code += '\n';
}

}  // namespace

std::string without_comments(const std::string &cpp) {
    std::string code;
    for (std::size_t at = 0; at < cpp.size();) {
        std::size_t end = at + 1;
        if (cpp.compare(at, 2, "//") == 0) {
            end = std::min(cpp.find('\n', at), cpp.size());
        } else if (cpp.compare(at, 2, "/*") == 0) {
            end = cpp.find("*/", at + 2);
            end = end == cpp.npos ? cpp.size() : end + 2;
            code += ' ';
        } else if (cpp[at] == '\n') {
            end_line(code);
        } else {
            if (begins_literal(cpp, at)) end = end_of_literal(cpp, at);
            code.append(cpp, at, end - at);
        }
        at = end;
    }
    end_line(code);
    return code;
}

std::uint64_t hash_of(const std::string &bytes, std::uint64_t from) {
    for (unsigned char c : bytes) from = (from ^ c) * 1099511628211u;
    return from;
}

std::string hex(std::uint64_t n) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(n));
    return text;
}

std::string bytes_of(const std::filesystem::path &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace attune::tune
