// SPDX-License-Identifier: MIT
// attune variants: the linked variants, as a table or as JSON.
#include "tools/commands/commands.h"
#include "tools/text.h"
#include <algorithm>
#include <array>
#include <attune/variants.h>
#include <nlohmann/json.hpp>

namespace attune::program {
namespace {

constexpr std::size_t text_width = 160, columns = 8;
// A row of the table. Op and target have no column: they are long, and in the name.
using Row = std::array<std::string, columns>;

// Whether the record of a variant (schedules/<op>/tuned/<target>.json) has a time: else its provenance says "measured": false.
bool is_measured(const VariantInfo &v) { return v.provenance.find("measured: false") == std::string_view::npos; }

Row row_of(const VariantInfo &v) {
    return {std::string(v.name),
            name_of(v.dtype),
            v.head_dim == 0 ? "any" : std::to_string(v.head_dim),
            std::string(v.schedule),
            v.shape_class.empty() ? "-" : std::string(v.shape_class),
            v.kind.empty() ? "-" : std::string(v.kind),
            v.dispatched ? "yes" : "if forced",
            v.runs_here ? "yes" : "no"};
}

// Words of `text` in lines of the page's width, each behind `indent` spaces.
std::string wrapped(const std::string &text, std::size_t indent) {
    std::string out, line;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const std::string word = text.substr(at, end - at);
        if (!line.empty() && indent + line.size() + 1 + word.size() > text_width) {
            out += std::string(indent, ' ') + line + "\n";
            line.clear();
        }
        line += (line.empty() ? "" : " ") + word;
        at = end + 1;
    }
    return line.empty() ? out : out + std::string(indent, ' ') + line + "\n";
}

}  // namespace

std::string variants_text() {
    const std::vector<VariantInfo> all = variants();
    std::vector<Row> rows = {{"name", "type", "head size", "schedule", "class", "kind", "dispatched", "runs here"}};
    for (const VariantInfo &v : all) rows.push_back(row_of(v));
    std::array<std::size_t, columns> width{};
    for (const Row &row : rows)
        for (std::size_t n = 0; n < columns; n++) width[n] = std::max(width[n], row[n].size());

    std::string out;
    for (std::size_t n = 0; n < rows.size(); n++) {
        std::string line;
        for (std::size_t c = 0; c < columns; c++) line += rows[n][c] + std::string(width[c] - rows[n][c].size() + 2, ' ');
        line.erase(line.find_last_not_of(' ') + 1);
        out += line + "\n";
        if (n == 0) continue;
        const VariantInfo &v = all[n - 1];
        if (!v.parameters.empty()) out += wrapped("parameters: " + std::string(v.parameters), 4);
        if (!v.provenance.empty()) out += wrapped("from: " + std::string(v.provenance), 4);
        if (!v.runs_here) out += wrapped("does not run here: " + v.why_not, 4);
    }
    const auto here = std::count_if(all.begin(), all.end(), [](const VariantInfo &v) { return v.runs_here; });
    const auto guessed =
        std::count_if(all.begin(), all.end(), [](const VariantInfo &v) { return v.runs_here && !is_measured(v); });
    return out + std::to_string(all.size()) + " variants, " + std::to_string(here) + " run here, " + std::to_string(guessed) +
           " of these not measured\n";
}

std::string variants_json() {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const VariantInfo &v : variants())
        list.push_back({{"name", v.name},
                        {"op", v.op},
                        {"dtype", name_of(v.dtype)},
                        {"head_dim", v.head_dim},
                        {"target", v.target},
                        {"schedule", v.schedule},
                        {"shape_class", v.shape_class},
                        {"kind", v.kind},
                        {"parameters", v.parameters},
                        {"provenance", v.provenance},
                        {"measured", is_measured(v)},
                        {"cost_measured", v.cost_measured},
                        {"dispatched", v.dispatched},
                        {"runs_here", v.runs_here},
                        {"why_not", v.why_not}});
    return list.dump(2) + "\n";
}

}  // namespace attune::program
