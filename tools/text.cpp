// SPDX-License-Identifier: MIT
// Numbers, labels, UTF-8 and XML.
#include "tools/text.h"
#include "tools/error.h"
#include "tools/files/input_file.h"
#include <charconv>
#include <cstdio>

namespace attune::program {
namespace {

constexpr std::uint64_t max_label_bytes = 16 << 20;

template<typename T> std::optional<T> all_of(std::string_view text) {
    T value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return {};
    return value;
}

// The character at the start of `text` and its number of bytes; 0 bytes if it is not UTF-8.
std::pair<std::size_t, char32_t> character(std::string_view text) {
    const auto byte = [&](std::size_t n) { return static_cast<unsigned char>(text[n]); };
    const unsigned char first = byte(0);
    const std::size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    if (length == 0 || length > text.size()) return {0, 0};
    char32_t c = length == 1 ? first : first & (0x7f >> length);
    for (std::size_t n = 1; n < length; n++) {
        if (byte(n) >> 6 != 2) return {0, 0};
        c = c << 6 | (byte(n) & 0x3f);
    }
    constexpr char32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < lowest[length] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return {0, 0};
    return {length, c};
}

bool is_utf8(std::string_view text) {
    while (!text.empty()) {
        const std::size_t length = character(text).first;
        if (length == 0) return false;
        text.remove_prefix(length);
    }
    return true;
}

}  // namespace

std::optional<std::int64_t> integer_in(std::string_view text) { return all_of<std::int64_t>(text); }
std::optional<std::uint64_t> natural_in(std::string_view text) { return all_of<std::uint64_t>(text); }
std::optional<double> number_in(std::string_view text) { return all_of<double>(text); }

bool looks_like_number(std::string_view text) {
    return !text.empty() && text.find_first_not_of("+-.0123456789") == std::string_view::npos;
}

std::string one_line(std::string text) {
    for (char &c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
    return text;
}

std::string formatted(const char *how, double x) {
    char text[64];
    std::snprintf(text, sizeof(text), how, x);
    return text;
}

double rounded(double x, int digits) { return std::stod(formatted(("%." + std::to_string(digits) + "g").c_str(), x)); }

std::string short_number(double x, int digits) {
    char text[40];
    std::snprintf(text, sizeof text, "%.*g", digits, x);
    return text;
}

std::string listed(const std::vector<std::string> &words) {
    std::string all;
    for (std::size_t n = 0; n < words.size(); n++) all += (n == 0 ? "" : n + 1 < words.size() ? ", " : " or ") + words[n];
    return all;
}

std::vector<std::string> read_labels(const std::string &argument, const std::string &path) {
    const auto fail = [&](const std::string &what) { throw InputError(argument, path + ": " + what); };
    std::uint64_t bytes = 0;
    std::ifstream file = open_input(argument, path, bytes);
    if (bytes > max_label_bytes) fail("is larger than 16 MiB");
    std::vector<std::string> labels;
    for (std::string line; std::getline(file, line);) {
        if (!line.empty() && line.back() == '\r') line.pop_back();
        if (labels.empty() && line.starts_with("\xef\xbb\xbf")) line.erase(0, 3);  // byte order mark
        if (!is_utf8(line)) fail("line " + std::to_string(labels.size() + 1) + " is not UTF-8");
        labels.push_back(std::move(line));
    }
    return labels;
}

std::string xml_escaped(std::string_view text) {
    std::string out;
    while (!text.empty()) {
        const auto [length, c] = character(text);
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '>')
            out += "&gt;";
        else if (c == '"')
            out += "&quot;";
        else if (length == 0 || (c < ' ' && c != '\t') || c == 0xfffe || c == 0xffff)
            out += "\xef\xbf\xbd";
        else
            out += text.substr(0, length);
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return out;
}

std::string shortened(std::string_view text, std::size_t max) {
    std::size_t at = 0, cut = 0;
    for (std::size_t n = 0; at < text.size(); n++) {
        if (n + 1 == max) cut = at;
        if (n == max) return std::string(text.substr(0, cut)) + "\xe2\x80\xa6";
        at += std::max<std::size_t>(character(text.substr(at)).first, 1);
    }
    return std::string(text);
}

double width_of(std::string_view text) {
    double width = 0;
    while (!text.empty()) {
        const auto [length, c] = character(text);
        width += c >= 0x1100 ? 1.0 : 0.6;  // from Hangul on, most scripts are as wide as high
        text.remove_prefix(std::max<std::size_t>(length, 1));
    }
    return width;
}

}  // namespace attune::program
