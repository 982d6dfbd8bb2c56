// SPDX-License-Identifier: MIT
// Messages quoted in headers: each quote must be a message of the library.
#include "tests/support/catch.h"
#include <attune/attune.h>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace {

// "argument: what is wrong", in comments of the public headers.
std::set<std::string> quotes_of_headers() {
    const auto headers = std::filesystem::path(__FILE__).parent_path() / "../../runtime/include/attune";
    const std::regex line_break("\n *// "), quote("\"([a-z_.]+: [^\"\n]*)\"");
    std::set<std::string> quotes;
    for (const auto &file : std::filesystem::recursive_directory_iterator(headers)) {
        if (!file.is_regular_file()) continue;
        std::ifstream in(file.path());
        const std::string text = std::regex_replace(std::string(std::istreambuf_iterator<char>(in), {}), line_break, " ");
        for (std::sregex_iterator at(text.begin(), text.end(), quote), end; at != end; ++at)
            if (!(*at)[1].str().starts_with("attune: ")) quotes.insert((*at)[1]);  // the compiler's: wrong_usage
    }
    return quotes;
}

}  // namespace

TEST_CASE("the messages that headers quote are those of the library", "[runtime][bad_input]") {
    const float x[64] = {};
    float out[64];
    attune::Context context;
    const attune::ConstView q(x, {2, 4}), strided(x, {2, 4}, {12, 3});
    const std::set<std::string> said = {
        attune::Context({.threads = -2}).status().message(),
        attune::scaled_dot_product_attention(context, q, strided, q, attune::View(out, {2, 4})).message(),
    };
    CHECK(quotes_of_headers() == said);
}
