// SPDX-License-Identifier: MIT
#include "parameters_file.h"
#include "tools/error.h"
#include "tools/files/atomic_file.h"
#include <algorithm>
#include <filesystem>
#include <fstream>

namespace attune::tune {
namespace {
using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// JSON on one line, with a space after each comma and colon.
std::string spaced(const Json &json) {
    if (!json.is_structured()) return json.dump(-1, ' ', false, Json::error_handler_t::replace);
    std::string text;
    for (auto it = json.begin(); it != json.end(); ++it)
        text += (text.empty() ? "" : ", ") + (json.is_object() ? Json(it.key()).dump() + ": " : "") + spaced(*it);
    return (json.is_object() ? "{" : "[") + text + (json.is_object() ? "}" : "]");
}

Parameters parameters_of(const Json &record) {
    Parameters parameters;
    if (record.contains("parameters"))
        for (const auto &[name, value] : record["parameters"].items()) parameters[name] = value.get<int>();
    return parameters;
}

std::vector<std::string> kinds_of(const Json &record) {
    return record.contains("kinds") ? record["kinds"].get<std::vector<std::string>>() : std::vector<std::string>{"plain"};
}

bool has_kind(const Json &record, const Cell &cell) {
    const auto kinds = kinds_of(record);
    return cell.kind.empty() || std::find(kinds.begin(), kinds.end(), cell.kind) != kinds.end();
}

bool is_of(const Json &record, const Cell &cell) {
    return record["dtype"] == cell.dtype && record["head_dim"] == cell.head_dim && record["schedule"] == cell.schedule &&
           record["class"] == cell.shape_class && has_kind(record, cell);
}

Json without_records(const std::string &op, const std::string &target) {
    return {{"schema", 1}, {"op", op}, {"target", target}, {"records", Json::array()}};
}

}  // namespace

ParametersFile::ParametersFile(const std::string &file, const std::string &op, const std::string &target)
    : file_(file), json_(without_records(op, target)) {
    if (!fs::exists(file)) return;
    std::ifstream in(file);
    read(in);
}

ParametersFile::ParametersFile(std::istream &in, const std::string &file, const std::string &op, const std::string &target)
    : file_(file), json_(without_records(op, target)) {
    read(in);
}

void ParametersFile::read(std::istream &in) {
    const Json read = Json::parse(in, nullptr, false);
    const auto is = [&](const char *field, const Json &value) { return read.contains(field) && read[field] == value; };
    if (!read.is_object() || !read.contains("records") || !read["records"].is_array())
        throw program::InputError(file_, "is no parameters file");
    for (const char *field : {"schema", "op", "target"})
        if (!is(field, json_[field]))
            throw program::InputError(file_, std::string("\"") + field + "\" must be " + json_[field].dump());
    for (const Json &record : read["records"])
        for (const char *field : {"dtype", "head_dim", "schedule", "class"})
            if (!record.contains(field)) throw program::InputError(file_, std::string("a record has no \"") + field + "\"");
    json_ = read;
}

std::optional<Parameters> ParametersFile::find(const Cell &cell) const {
    for (const Json &record : json_["records"])
        if (is_of(record, cell)) return parameters_of(record);
    return {};
}

std::vector<Parameters> ParametersFile::near(const Cell &cell) const {
    std::vector<std::pair<int, Parameters>> found;
    for (const Json &record : json_["records"]) {
        if (record["schedule"] != cell.schedule || !record.contains("parameters") || record["parameters"].empty()) continue;
        const int apart = 8 * (record["dtype"] != cell.dtype) + 4 * (record["class"] != cell.shape_class) +
                          2 * (record["head_dim"] != cell.head_dim) + !has_kind(record, cell);
        found.emplace_back(apart, parameters_of(record));
    }
    std::stable_sort(found.begin(), found.end(), [](const auto &a, const auto &b) { return a.first < b.first; });
    std::vector<Parameters> parameters;
    for (auto &[apart, one] : found) parameters.push_back(std::move(one));
    return parameters;
}

void ParametersFile::set(const Cell &cell, const Parameters &parameters, const Json &provenance) {
    Json record = {
        {"dtype", cell.dtype}, {"head_dim", cell.head_dim}, {"schedule", cell.schedule}, {"class", cell.shape_class}};
    if (!cell.kind.empty()) record["kinds"] = {cell.kind};
    record["parameters"] = Json(parameters), record["provenance"] = provenance;
    Json &records = json_["records"];
    const auto old = std::find_if(records.begin(), records.end(), [&](const Json &r) { return is_of(r, cell); });
    if (old == records.end()) {
        records.push_back(record);
        return;
    }
    std::vector<std::string> others = kinds_of(*old);
    std::erase(others, cell.kind);
    if (cell.kind.empty() || others.empty()) {
        *old = record;
        return;
    }
    (*old)["kinds"] = others;
    records.insert(old, record);
}

std::string ParametersFile::text() const {
    std::string text = "{\n";
    for (const auto &[name, value] : json_.items())
        if (name != "records") text += "  \"" + name + "\": " + spaced(value) + ",\n";
    const Json &records = json_["records"];
    if (records.empty()) return text + "  \"records\": []\n}\n";
    text += "  \"records\": [\n";
    for (std::size_t n = 0; n < records.size(); n++) {
        std::string lines[3];
        for (const auto &[name, value] : records[n].items()) {
            std::string &line = lines[name == "parameters" ? 1 : name == "provenance" ? 2 : 0];
            line += (line.empty() ? "" : ", ") + Json(name).dump() + ": " + spaced(value);
        }
        text += "    {" + lines[0];
        for (std::size_t line : {1, 2})
            if (!lines[line].empty()) text += ",\n     " + lines[line];
        text += n + 1 < records.size() ? "},\n" : "}\n";
    }
    return text + "  ]\n}\n";
}

void ParametersFile::write() const {
    std::error_code error;
    fs::create_directories(fs::path(file_).parent_path(), error);
    program::write_file(file_, text());
}

}  // namespace attune::tune
