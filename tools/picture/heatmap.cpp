// SPDX-License-Identifier: MIT
// Draws attention weights as SVG. Rows are queries, columns are keys; each cell carries its value as a tooltip.
#include "tools/picture/heatmap.h"
#include "tools/text.h"
#include <algorithm>
#include <array>
#include <cmath>

namespace attune::program {
namespace {

constexpr double page_width = 1760, margin = 24, header = 64, legend_height = 54, title_height = 22, gap = 28;
constexpr std::size_t label_characters = 22;
// Font sizes in pixels; where labels would touch, only every n-th is drawn.
constexpr double least_font = 6, largest_font = 12;

// White to deep blue in even steps of lightness: prints well, and is clear to colour-blind readers.
constexpr std::array<std::array<int, 3>, 7> colours = {
    {{247, 251, 255}, {218, 232, 245}, {175, 209, 231}, {113, 177, 215}, {58, 136, 192}, {22, 92, 161}, {8, 48, 107}}};
constexpr const char *nan_colour = "#d9a0a0";

std::string px(double x) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f", x);
    std::string s = text;
    s.erase(s.find_last_not_of('0') + 1);
    if (s.back() == '.') s.pop_back();
    return s == "-0" ? "0" : s;
}

std::string colour_of(double share) {
    if (std::isnan(share)) return nan_colour;
    const double at = std::clamp(share, 0.0, 1.0) * (colours.size() - 1);
    const std::size_t low = std::min<std::size_t>(static_cast<std::size_t>(at), colours.size() - 2);
    char text[8];
    int c[3];
    for (int n = 0; n < 3; n++)
        c[n] = static_cast<int>(
            std::lround(colours[low][n] + (at - static_cast<double>(low)) * (colours[low + 1][n] - colours[low][n])));
    std::snprintf(text, sizeof text, "#%02x%02x%02x", c[0], c[1], c[2]);
    return text;
}

std::string text_at(double x, double y, const char *css_class, const std::string &text, const std::string &more = "") {
    return "<text x=\"" + px(x) + "\" y=\"" + px(y) + "\" class=\"" + css_class + "\"" + more + ">" + xml_escaped(text) +
           "</text>\n";
}

class Drawing {
public:
    explicit Drawing(const Heatmap &map) : map_(map) {
        const std::int64_t longest = std::max<std::int64_t>({map.queries, map.keys, 1});
        // Labels need about 10 pixels; beyond a hundred cells the pattern counts, not the label.
        cell_ = std::clamp(std::floor(660.0 / static_cast<double>(longest)), longest <= 100 ? 9.0 : 2.0, 26.0);
        font_ = std::clamp(cell_ * 0.85, least_font, largest_font);
        every_ = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(least_font * 1.3 / cell_)));
        steep_ = cell_ < 15;
        left_ = widest(map.query_labels, map.queries) + 8;
        const double key_width = widest(map.key_labels, map.keys);
        top_ = (steep_ ? key_width : key_width * 0.71 + font_ * 0.7) + 8;
        right_ = steep_ ? 0 : key_width * 0.71;
        grid_width_ = cell_ * static_cast<double>(map.keys), grid_height_ = cell_ * static_cast<double>(map.queries);
        panel_width_ = std::max(left_ + grid_width_ + right_, 120.0);
        panel_height_ = title_height + top_ + grid_height_;
        for (std::int64_t b = 0; b < map.batch; b++)
            for (std::int64_t h = 0; h < map.heads; h++)
                for (std::int64_t i = 0; i < map.queries; i++)
                    for (std::int64_t j = 0; j < std::min(map.keys, map.length(b, i)); j++)
                        if (const double w = map.weight(b, h, i, j); w > most_ && std::isfinite(w)) most_ = w;
        if (most_ == 0) most_ = 1;
    }

    std::string svg() {
        const std::int64_t panels = map_.batch * map_.heads;
        // Heads of a batch entry stand together, so a row has at most as many panels as heads (unless there is one head).
        const std::int64_t group = map_.heads > 1 ? map_.heads : std::max<std::int64_t>(panels, 1);
        const std::int64_t fit =
            std::max<std::int64_t>(1, static_cast<std::int64_t>((page_width - 2 * margin + gap) / (panel_width_ + gap)));
        const std::int64_t rows = (group + fit - 1) / fit, columns = (group + rows - 1) / rows;
        const std::int64_t all_rows = panels == 0 ? 0 : (panels + group - 1) / group * rows;
        const double width = std::max(2 * margin + static_cast<double>(columns) * (panel_width_ + gap) - gap, 460.0);
        const double height = header + static_cast<double>(all_rows) * (panel_height_ + gap) + legend_height;

        std::string out = start(width, height);
        for (std::int64_t n = 0; n < panels; n++) {
            const std::int64_t in_group = n % group, row = n / group * rows + in_group / columns, column = in_group % columns;
            panel(out, n / map_.heads, n % map_.heads, margin + static_cast<double>(column) * (panel_width_ + gap),
                  header + static_cast<double>(row) * (panel_height_ + gap));
        }
        legend(out, height - legend_height + 6);
        return out + "</svg>\n";
    }

private:
    std::string label(const std::vector<std::vector<std::string>> &labels, std::int64_t b, std::int64_t n) const {
        if (labels.empty()) return std::to_string(n);
        return labels[labels.size() == 1 ? 0 : static_cast<std::size_t>(b)][static_cast<std::size_t>(n)];
    }
    double widest(const std::vector<std::vector<std::string>> &labels, std::int64_t count) const {
        if (count == 0) return 0;
        double width = labels.empty() ? width_of(std::to_string(count - 1)) : 0;
        for (const auto &list : labels)
            for (std::int64_t n = 0; n < count; n++)
                width = std::max(width, width_of(shortened(list[static_cast<std::size_t>(n)], label_characters)));
        return width * font_;
    }

    std::string start(double width, double height) const {
        std::string out =
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + px(width) +
            "\" height=\"" + px(height) + "\" viewBox=\"0 0 " + px(width) + " " + px(height) +
            "\" role=\"img\">\n<title>Attention weights</title>\n<style>\n"
            "text { font-family: 'DejaVu Sans', Verdana, Arial, sans-serif; fill: #222; }\n"
            ".heading { font-size: 16px; font-weight: bold; }\n.note { font-size: 12px; fill: #555; }\n"
            ".panel-title { font-size: 13px; font-weight: bold; }\n"
            ".query { text-anchor: end; }\n.key { text-anchor: start; }\n.tick { font-size: 11px; text-anchor: middle; }\n"
            ".frame { fill: url(#empty); stroke: #bbb; stroke-width: 1; }\n" +
            std::string(cell_ >= 8 ? ".cell { stroke: #fff; stroke-width: 0.6; }\n"
                                   : ".cell { shape-rendering: crispEdges; }\n") +
            ".cell:hover { stroke: #e6550d; stroke-width: 1.5; }\n</style>\n<defs>\n"
            "<pattern id=\"empty\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\">"
            "<rect width=\"6\" height=\"6\" fill=\"#fff\"/><path d=\"M0 6L6 0\" stroke=\"#e3e3e3\" "
            "stroke-width=\"1\"/></pattern>\n"
            "<linearGradient id=\"scale\">";
        for (std::size_t n = 0; n < colours.size(); n++) {
            const double at = static_cast<double>(n) / (colours.size() - 1);
            out += "<stop offset=\"" + px(at) + "\" stop-color=\"" + colour_of(at) + "\"/>";
        }
        out += "</linearGradient>\n</defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
        out += text_at(margin, 30, "heading", "Attention weights");
        out += text_at(margin, 48, "note", "Rows are queries, columns are keys. Point at a cell for its value.");
        return out;
    }

    void panel(std::string &out, std::int64_t b, std::int64_t h, double x, double y) const {
        std::string title = map_.heads > 1 ? "head " + std::to_string(h) : map_.batch > 1 ? "" : "head 0";
        if (map_.batch > 1) title = "batch " + std::to_string(b) + (title.empty() ? "" : ", " + title);
        out += "<g class=\"panel\" transform=\"translate(" + px(x) + " " + px(y) + ")\">\n";
        out += text_at(left_, 12, "panel-title", title);
        const double grid_y = title_height + top_;
        const std::string font = " font-size=\"" + px(font_) + "\"";
        for (std::int64_t j = 0; j < map_.keys; j += every_) {
            const double at = left_ + (static_cast<double>(j) + 0.5) * cell_ + font_ * 0.3, base = grid_y - 5;
            const std::string turn =
                " transform=\"rotate(" + std::string(steep_ ? "-90 " : "-45 ") + px(at) + " " + px(base) + ")\"";
            out += text_at(at, base, "key", shortened(label(map_.key_labels, b, j), label_characters), font + turn);
        }
        for (std::int64_t i = 0; i < map_.queries; i += every_)
            out += text_at(left_ - 6, grid_y + (static_cast<double>(i) + 0.5) * cell_ + font_ * 0.35, "query",
                           shortened(label(map_.query_labels, b, i), label_characters), font);
        out += "<rect x=\"" + px(left_) + "\" y=\"" + px(grid_y) + "\" width=\"" + px(grid_width_) + "\" height=\"" +
               px(grid_height_) + "\" class=\"frame\"/>\n";
        for (std::int64_t i = 0; i < map_.queries; i++) {
            const std::string row = label(map_.query_labels, b, i) + " \xe2\x86\x92 ";
            for (std::int64_t j = 0; j < std::min(map_.keys, map_.length(b, i)); j++) {
                const double w = map_.weight(b, h, i, j);
                out += "<rect class=\"cell\" x=\"" + px(left_ + static_cast<double>(j) * cell_) + "\" y=\"" +
                       px(grid_y + static_cast<double>(i) * cell_) + "\" width=\"" + px(cell_) + "\" height=\"" + px(cell_) +
                       "\" fill=\"" + colour_of(w / most_) + "\"><title>" +
                       xml_escaped(row + label(map_.key_labels, b, j) + ": " + short_number(w, 4)) + "</title></rect>\n";
            }
        }
        out += "</g>\n";
    }

    void legend(std::string &out, double y) const {
        constexpr double width = 260;
        out += "<g class=\"legend\" transform=\"translate(" + px(margin) + " " + px(y) + ")\">\n";
        out += "<rect width=\"" + px(width) + "\" height=\"12\" fill=\"url(#scale)\" stroke=\"#bbb\"/>\n";
        for (double share : {0.0, 0.25, 0.5, 0.75, 1.0})
            out += text_at(width * share, 28, "tick", short_number(share * most_, 2));
        out += text_at(width + 20, 10, "note", "weight");
        out += "<rect x=\"" + px(width + 80) + "\" width=\"14\" height=\"12\" class=\"frame\"/>\n";
        out += text_at(width + 100, 10, "note", "no key");
        out += "</g>\n";
    }

    const Heatmap &map_;
    double cell_, font_, left_, top_, right_, grid_width_, grid_height_, panel_width_, panel_height_, most_ = 0;
    std::int64_t every_;
    bool steep_;
};

}  // namespace

std::string svg_of(const Heatmap &map) { return Drawing(map).svg(); }

}  // namespace attune::program
