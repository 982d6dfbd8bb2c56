// SPDX-License-Identifier: MIT
// Text that the program takes and gives: numbers of the command line, label files, XML.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::program {

// All of `text`, no spaces; none if it is not a number or does not fit.
std::optional<std::int64_t> integer_in(std::string_view text);
std::optional<std::uint64_t> natural_in(std::string_view text);
std::optional<double> number_in(std::string_view text);  // also nan and inf, which the library judges
bool looks_like_number(std::string_view text);

// Control characters become '?', so that a message is one line whatever a file is called.
std::string one_line(std::string text);

// printf of one number: formatted("%.2f", x)
std::string formatted(const char *how, double);
// "0.0123", at most `digits` digits that count
std::string short_number(double, int digits);

// One label a line, UTF-8. Throws InputError.
std::vector<std::string> read_labels(const std::string &argument, const std::string &path);

// Characters that XML forbids become U+FFFD. The text must be UTF-8.
std::string xml_escaped(std::string_view text);
// The first `max` characters, the last of them an ellipsis if there are more.
std::string shortened(std::string_view text, std::size_t max);
// Approximate width in units of the font's size.
double width_of(std::string_view text);

}  // namespace attune::program
