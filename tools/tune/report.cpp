// SPDX-License-Identifier: MIT
#include "report.h"
#include "tools/error.h"
#include "tools/text.h"
#include <algorithm>
#include <map>

namespace attune::tune {
namespace {

std::string share(const CellReport &r, double seconds) {
    const std::string share = r.result.limit.share_text(seconds);
    return share.empty() ? "-" : share;
}

std::string tried_text(const CellReport &r) {
    std::map<std::string, std::size_t> counts;
    for (const Trial &t : r.result.trials) counts[t.verdict]++;
    std::string text;
    for (const auto &[verdict, count] : counts) text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + verdict;
    return text.empty() ? "nothing" : text;
}

// The reason why the parameters in use stay.
std::string why_kept(const CellReport &r) {
    const CellResult &result = r.result;
    if (!result.failure.empty()) return result.failure;
    if (!result.not_tried.empty()) return result.not_tried;
    if (result.chosen != r.in_use && r.over_in_use)
        return "of what was found from the parameters of " + r.began +
               ", no gain over those in use is certain: " + text_of(result.chosen) + " is " + text_of(*r.over_in_use);
    if (!r.began.empty() && result.gain)
        return "the best that was found from the parameters of " + r.began + " is what is in use";
    const auto timed = [&](const Trial &t) { return t.verdict == "timed" && t.parameters != result.baseline; };
    if (std::none_of(result.trials.begin(), result.trials.end(), timed)) return "no other candidate was timed";
    if (result.finalists.empty()) return "no candidate came within 3 % of " + text_of(result.baseline);
    const Finalist *best = &result.finalists.front();
    for (const Finalist &f : result.finalists)
        if (f.gain.value > best->gain.value) best = &f;
    return "no gain of more than 1 % is certain: the best, " + text_of(best->parameters) + ", is " + text_of(best->gain);
}

}  // namespace

std::optional<Gain> CellReport::gain() const {
    if (!result.failure.empty() || result.chosen == in_use) return {};
    const std::optional<Gain> &over = result.baseline == in_use ? result.gain : over_in_use;
    return over && replaces(*over) ? over : std::nullopt;
}

double CellReport::seconds_in_use() const {
    if (result.baseline == in_use) return result.baseline_seconds;
    if (result.chosen == in_use) return result.chosen_seconds;
    return over_in_use ? result.chosen_seconds * over_in_use->value : 0;
}

std::string text_of(const Gain &gain) {
    return program::formatted("%.3f", gain.value) + " (" + program::formatted("%.3f", gain.low) + " to " +
           program::formatted("%.3f", gain.high) + ")";
}

std::string how_found(const CellReport &r) {
    const auto timed =
        std::count_if(r.result.trials.begin(), r.result.trials.end(), [](const Trial &t) { return t.verdict == "timed"; });
    std::string text = "best of " + std::to_string(timed) + " candidates";
    if (!r.began.empty()) text += " from the parameters of " + r.began;
    if (const auto gain = r.gain()) text += ", " + text_of(*gain) + " of the speed of " + text_of(r.in_use);
    if (const std::string share = r.result.limit.share_text(r.result.chosen_seconds); !share.empty())
        text += ", " + share + " of the " + r.result.limit.unit;
    for (const WeightedShape &s : r.result.shapes) text += ", " + s.shape.label();
    return text;
}

nlohmann::ordered_json figures_of(const CellReport &r) {
    const double seconds = r.result.chosen_seconds, percent = 100 * r.result.limit.share(seconds);
    nlohmann::ordered_json figures{{"us", program::rounded(1e6 * seconds, 4)}};
    // A share above 1 is a read from a cache, or a peak measured on a busy machine (PeakLimit::share_text).
    if (percent > 0 && percent <= 100) figures["percent_of_peak"] = program::rounded(percent, 3);
    figures["shape"] = r.result.shapes.front().shape.label();
    return figures;
}

std::string table_of(const std::vector<CellReport> &reports) {
    std::vector<std::vector<std::string>> rows = {
        {"variant", "in use", "now", "speed, 95 %", "share before", "after", "tried"}};
    std::string kept;
    for (const CellReport &r : reports) {
        const CellResult &result = r.result;
        const std::optional<Gain> gain = r.gain();
        rows.push_back({r.cell.variant, text_of(r.in_use), gain ? text_of(r.now()) : "unchanged", gain ? text_of(*gain) : "-",
                        share(r, r.seconds_in_use()), share(r, gain ? result.chosen_seconds : r.seconds_in_use()),
                        tried_text(r)});
        if (!gain) kept += r.cell.variant + ": unchanged: " + why_kept(r) + "\n";
        if (!result.shapes_left_out.empty()) kept += r.cell.variant + ": not timed: " + result.shapes_left_out + "\n";
        if (result.loudest > 0.05)
            kept += r.cell.variant + ": other programs took up to " + program::formatted("%.2f", result.loudest) +
                    " cores while it was timed\n";
        for (const std::string &parameter : result.inert)
            kept += r.cell.variant + ": " + parameter + " never changed the code\n";
    }
    std::vector<std::size_t> width(rows[0].size());
    for (const auto &row : rows)
        for (std::size_t c = 0; c < row.size(); c++) width[c] = std::max(width[c], row[c].size());
    std::string text;
    for (const auto &row : rows) {
        std::string line;
        for (std::size_t c = 0; c < row.size(); c++) line += row[c] + std::string(width[c] - row[c].size() + 2, ' ');
        text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return kept.empty() ? text : text + "\n" + kept;
}

std::string picture_of(const std::vector<CellReport> &reports) {
    constexpr int width = 900, height = 260, left = 60, right = 20, top = 46, bottom = 50;
    std::string svg;
    int y0 = 0;
    const auto text = [&](double x, double y, const std::string &what, const char *more) {
        svg += "<text x=\"" + program::formatted("%.1f", x) + "\" y=\"" + program::formatted("%.1f", y) + "\" " + more + ">" +
               program::xml_escaped(what) + "</text>\n";
    };
    for (const CellReport &r : reports) {
        const auto &trials = r.result.trials;
        double least = 1, most = 1;
        for (const Trial &t : trials)
            if (t.was_right()) least = std::min(least, t.gain), most = std::max(most, t.gain);
        least = std::max(0.0, least - 0.05), most += 0.05;
        const auto x_of = [&](std::size_t n) {
            return left + (width - left - right) * (double(n) + 0.5) / std::max<double>(1, double(trials.size()));
        };
        const auto y_of = [&](double gain) {
            return y0 + height - bottom - (height - top - bottom) * (gain - least) / (most - least);
        };
        text(left, y0 + 18, r.cell.variant, "font-weight=\"bold\"");
        text(left, y0 + 34, "speed of each candidate over that of " + text_of(r.result.baseline), "fill=\"#555\"");
        for (int tick = 0; tick <= 4; tick++) {
            const double gain = least + (most - least) * tick / 4, y = y_of(gain);
            svg += "<line x1=\"" + std::to_string(left) + "\" x2=\"" + std::to_string(width - right) + "\" y1=\"" +
                   program::formatted("%.1f", y) + "\" y2=\"" + program::formatted("%.1f", y) + "\" stroke=\"#ddd\"/>\n";
            text(left - 6, y + 4, program::formatted("%.2f", gain), "text-anchor=\"end\"");
        }
        const std::string one = program::formatted("%.1f", y_of(1));
        svg += "<line x1=\"" + std::to_string(left) + "\" x2=\"" + std::to_string(width - right) + "\" y1=\"" + one +
               "\" y2=\"" + one + "\" stroke=\"#888\" stroke-dasharray=\"4 3\"/>\n";
        for (std::size_t n = 0; n < trials.size(); n++) {
            const Trial &t = trials[n];
            const bool right_one = t.was_right(), chosen = r.gain() && t.parameters == r.result.chosen;
            const double x = x_of(n), y = right_one ? y_of(t.gain) : y0 + height - bottom + 14;
            svg += "<circle cx=\"" + program::formatted("%.1f", x) + "\" cy=\"" + program::formatted("%.1f", y) + "\" r=\"" +
                   (chosen ? "6" : "3") + "\" fill=\"" +
                   (chosen      ? "#d62728"
                    : right_one ? "#1f77b4"
                                : "#999") +
                   "\"><title>" +
                   program::xml_escaped(text_of(t.parameters) + (right_one ? ": " + program::formatted("%.3f", t.gain)
                                                                           : ": " + t.verdict + ": " + t.reason)) +
                   "</title></circle>\n";
        }
        text(left, y0 + height - 12, "candidates in the order in which they were tried; grey: rejected; red: chosen",
             "fill=\"#555\"");
        y0 += height;
    }
    return svg_document(width, std::max(y0, 1), svg);
}

std::string svg_document(int width, int height, const std::string &elements) {
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + std::to_string(width) + "\" height=\"" +
           std::to_string(height) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n" +
           elements + "</svg>\n";
}

void write_picture(program::Outputs &to, const std::string &svg) {
    to.write("--picture", {{svg.data(), svg.size()}});
    to.commit();
}

}  // namespace attune::tune
