// SPDX-License-Identifier: MIT
#include "space_file.h"
#include "tools/error.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace attune::tune {
namespace {
using nlohmann::ordered_json;
using program::InputError;

// A part of a file, and its place: "spaces[2].parameters.kv_block".
struct Part {
    const std::string &file;
    std::string where;
    const ordered_json &json;

    [[noreturn]] void fail(const std::string &what) const {
        throw InputError(file, where.empty() ? what : where + ": " + what);
    }

    // Refuses unknown names: a misspelled part would have no effect.
    void has_only(const std::set<std::string> &names) const {
        if (!json.is_object()) fail("is no object");
        for (const auto &[name, value] : json.items())
            if (!names.contains(name)) fail("\"" + name + "\" is not known");
    }
    Part at(const std::string &name) const {
        if (!json.contains(name)) fail("has no \"" + name + "\"");
        return {file, where.empty() ? name : where + "." + name, json.at(name)};
    }
    std::vector<Part> list() const {
        if (!json.is_array()) fail("is no list");
        std::vector<Part> parts;
        for (std::size_t n = 0; n < json.size(); n++) parts.push_back({file, where + "[" + std::to_string(n) + "]", json[n]});
        return parts;
    }
    std::string text() const {
        if (!json.is_string()) fail("is no text");
        return json.get<std::string>();
    }
    int number() const {
        if (!json.is_number_integer()) fail("is no whole number");
        return json.get<int>();
    }
    bool names(const std::string &name) const {
        const auto parts = list();
        return std::any_of(parts.begin(), parts.end(), [&](const Part &part) { return part.text() == name; });
    }
};

ordered_json parsed(const std::string &file) {
    std::ifstream in(file);
    if (!in) throw InputError(file, "cannot be read");
    try {
        return ordered_json::parse(in);
    } catch (const ordered_json::exception &error) {
        throw InputError(file, error.what());
    }
}

// A constraint's requirement, and the words for a violation.
std::pair<std::string, std::string> constraint_of(const Part &part) {
    if (part.json.is_object() && part.json.contains("multiple")) {
        part.has_only({"multiple", "of", "note"});
        const std::string value = part.at("multiple").text(), of = part.at("of").text();
        return {"(" + value + ") % (" + of + ") == 0", value + " {" + value + "} is no multiple of " + of + " {" + of + "}"};
    }
    if (part.json.is_object() && part.json.contains("need")) {
        part.has_only({"for", "need", "of", "note"});
        const std::string need = part.at("need").text(), of = part.at("of").text();
        std::string unit = "{" + of + "} " + of, needed = need;
        if (of.ends_with("_bytes")) {
            std::string level = of.substr(0, of.find('_'));
            std::transform(level.begin(), level.end(), level.begin(), [](unsigned char c) { return char(std::toupper(c)); });
            unit = "{" + of + " / 1024} KiB of " + level;
            needed = "(" + need + ") / 1024";
        }
        return {"(" + need + ") <= " + of, part.at("for").text() + ": {" + needed + "} of " + unit};
    }
    part.has_only({"require", "else", "note"});
    return {part.at("require").text(), part.at("else").text()};
}

std::vector<std::string> values_of(const Part &values, const std::string &shape_class) {
    if (values.json.is_object())
        return values_of(values.at(values.json.contains(shape_class) ? shape_class : "other"), shape_class);
    std::vector<std::string> texts;
    for (const Part &v : values.list()) texts.push_back(v.json.is_number_integer() ? std::to_string(v.number()) : v.text());
    if (texts.empty()) values.fail("there are none");
    return texts;
}

SpaceLines lines_of(const Part &space, const std::string &shape_class) {
    SpaceLines lines{space.file, {}, {}};
    const Part parameters = space.at("parameters");
    if (!parameters.json.is_object() || parameters.json.empty()) parameters.fail("there are none");
    for (const auto &[name, value] : parameters.json.items()) {
        const Part parameter = parameters.at(name);
        parameter.has_only({"values", "stage", "default", "note"});
        ParameterLines line{name, values_of(parameter.at("values"), shape_class), parameter.at("stage").number(), {}};
        if (parameter.json.contains("default")) line.otherwise = parameter.at("default").number();
        lines.parameters.push_back(line);
    }
    if (!space.json.contains("constraints")) return lines;
    for (const Part &constraint : space.at("constraints").list()) lines.constraints.push_back(constraint_of(constraint));
    return lines;
}

}  // namespace

SpaceLines read_space_lines(const std::string &file, const std::string &op, const std::string &schedule,
                            const std::string &shape_class) {
    const ordered_json json = parsed(file);
    const Part all{file, "", json};
    all.has_only({"schema", "op", "like", "spaces"});
    if (const int schema = all.at("schema").number(); schema != 1)
        all.fail("schema " + std::to_string(schema) + ", expected 1");
    if (const std::string of = all.at("op").text(); of != op) all.fail("\"op\" is " + of + ", expected " + op);
    if (json.contains("spaces")) {
        for (const Part &space : all.at("spaces").list()) {
            space.has_only({"schedules", "classes", "note", "parameters", "constraints"});
            const bool of_class = !space.json.contains("classes") || space.at("classes").names(shape_class);
            if (space.at("schedules").names(schedule) && of_class) return lines_of(space, shape_class);
        }
    }
    if (json.contains("like")) {
        const std::string other = all.at("like").text();
        if (other == op) all.at("like").fail("names its own op");
        const auto folder = std::filesystem::path(file).parent_path().parent_path();
        return read_space_lines((folder / other / "space.json").string(), other, schedule, shape_class);
    }
    all.fail("has no space for the schedule " + schedule + (shape_class.empty() ? "" : ", class " + shape_class));
}

}  // namespace attune::tune
