// SPDX-License-Identifier: MIT
// Draws weights as SVG: rows are queries, columns are keys. A run of cells of one colour is one line: pictures stay small.
#include "gallery.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace gallery {
namespace {

constexpr std::int64_t side = 320, margin = 22, gap = 16;
constexpr int shades = 12;

// From white to deep blue.
std::string colour(int shade) {
    constexpr std::array<int, 3> light = {247, 251, 255}, deep = {8, 48, 107};
    const double share = double(shade) / (shades - 1);
    char text[8];
    int c[3];
    for (std::size_t n = 0; n < 3; n++) c[n] = int(std::lround(light[n] + share * (deep[n] - light[n])));
    std::snprintf(text, sizeof text, "#%02x%02x%02x", c[0], c[1], c[2]);
    return text;
}

// One head; weights of 0 are left as the background.
std::string panel(const float *weights, std::int64_t queries, std::int64_t keys) {
    std::array<std::string, shades> paths;
    for (std::int64_t i = 0; i < queries; i++) {
        const float *row = weights + i * keys, most = *std::max_element(row, row + keys);
        const auto shade = [&](std::int64_t j) { return row[j] > 0 ? int(std::lround((shades - 1) * row[j] / most)) : -1; };
        for (std::int64_t j = 0, end = 0; j < keys; j = end) {
            for (end = j + 1; end < keys && shade(end) == shade(j);) end++;
            if (shade(j) >= 0)
                paths[std::size_t(shade(j))] +=
                    "M" + std::to_string(j) + " " + std::to_string(i) + "h" + std::to_string(end - j);
        }
    }
    std::string out;
    for (int n = 0; n < shades; n++)
        if (const std::string &path = paths[std::size_t(n)]; !path.empty())
            out += "<path stroke=\"" + colour(n) + "\" d=\"" + path + "\"/>\n";
    return out;
}

}  // namespace

std::string picture(const std::string &title, const Sizes &s, const std::vector<float> &weights) {
    const auto text = [](std::int64_t n) { return std::to_string(n); };
    const std::int64_t cell = side / s.keys, wide = s.keys * cell, high = s.queries * cell,
                       width = margin + s.heads * (wide + gap), height = margin + high + gap;
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + text(width) + "\" height=\"" + text(height) +
                      "\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\">\n<title>" + title +
                      "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n<text transform=\"translate(15 " +
                      text(margin + high / 2) + ") rotate(-90)\" text-anchor=\"middle\">query</text>\n";
    for (std::int64_t h = 0; h < s.heads; h++) {
        const std::int64_t left = margin + h * (wide + gap);
        const std::string head = s.heads > 1 ? "key, head " + text(h) : "key";
        out += "<text x=\"" + text(left + wide / 2) + "\" y=\"15\" text-anchor=\"middle\">" + head + "</text>\n<rect x=\"" +
               text(left) + "\" y=\"" + text(margin) + "\" width=\"" + text(wide) + "\" height=\"" + text(high) +
               "\" fill=\"#eee\"/>\n<g transform=\"translate(" + text(left) + " " + text(margin) + ") scale(" + text(cell) +
               ") translate(0 .5)\" shape-rendering=\"crispEdges\">\n" +
               panel(weights.data() + h * s.queries * s.keys, s.queries, s.keys) + "</g>\n";
    }
    return out + "</svg>\n";
}

}  // namespace gallery
