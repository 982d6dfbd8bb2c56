// SPDX-License-Identifier: MIT
// Text in and out of the program: numbers of the command line, label files, XML.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace attune::program {

// The number that is all of `text`, without spaces; empty if it is no number or does not fit.
std::optional<std::int64_t> integer_in(std::string_view text);
std::optional<std::uint64_t> natural_in(std::string_view text);
std::optional<double> number_in(std::string_view text);  // also nan and inf, which the library accepts or refuses
bool looks_like_number(std::string_view text);

// A text with control characters replaced by '?', so that a message is one line for any file name.
std::string one_line(std::string text);

// printf of one number: formatted("%.2f", x)
std::string formatted(const char *how, double);
// "0.0123", with at most `digits` significant digits
std::string short_number(double, int digits);
// The number of at most so many significant digits that is nearest: a file of figures has no more than were measured.
double rounded(double, int digits);

// "a, b or c"
std::string listed(const std::vector<std::string> &);

// Reads labels, one per line, UTF-8. Throws InputError.
std::vector<std::string> read_labels(const std::string &argument, const std::string &path);

// A text, UTF-8, escaped for XML. Characters that XML forbids become U+FFFD.
std::string xml_escaped(std::string_view text);
// The first `max` characters; the last one is an ellipsis if there are more.
std::string shortened(std::string_view text, std::size_t max);
// Approximate width of a text in units of the font size.
double width_of(std::string_view text);

}  // namespace attune::program
