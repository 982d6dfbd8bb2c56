// SPDX-License-Identifier: MIT
#include "costs_file.h"
#include "tools/error.h"
#include "tools/files/atomic_file.h"
#include "tools/text.h"
#include <filesystem>
#include <fstream>

namespace attune::dispatch {
namespace {
using Json = nlohmann::ordered_json;

Json without_records(const std::string &op, const std::string &target) {
    return {{"schema", 1}, {"op", op}, {"target", target}, {"provenance", Json::object()}, {"costs", Json::object()}};
}

}  // namespace

CostsFile::CostsFile(std::string file, const std::string &op, const std::string &target)
    : file_(std::move(file)), json_(without_records(op, target)) {
    if (!std::filesystem::exists(file_)) return;
    std::ifstream in(file_);
    read(in);
}

CostsFile::CostsFile(std::istream &in, std::string file, const std::string &op, const std::string &target)
    : file_(std::move(file)), json_(without_records(op, target)) {
    read(in);
}

void CostsFile::read(std::istream &in) {
    const Json read = Json::parse(in, nullptr, false);
    if (!read.is_object() || !read.contains("costs") || !read["costs"].is_object())
        throw program::InputError(file_, "is no file of costs");
    for (const char *field : {"schema", "op", "target"})
        if (!read.contains(field) || read[field] != json_[field])
            throw program::InputError(file_, std::string("\"") + field + "\" must be " + json_[field].dump());
    json_ = read;
}

std::string CostsFile::key_of(const VariantInfo &v) {
    const std::string kind(v.kind.empty() ? "none" : v.kind);
    return std::string(name_of(v.dtype)) + "/" + std::to_string(v.head_dim) + "/" + std::string(v.schedule) + "/" +
           std::string(v.shape_class) + "/" + kind;
}

bool CostsFile::has(const std::string &key) const { return json_["costs"].contains(key); }

bool CostsFile::is_of_others(const std::string &key, const std::string &parameters) const {
    if (!has(key)) return false;
    const Json &record = json_["costs"][key];
    return record.is_object() && record.contains("parameters") && record["parameters"] != parameters;
}

void CostsFile::set(const std::string &key, const CostRecord &r) {
    Json cost = Json::array();
    for (const float c : r.cost) cost.push_back(program::rounded(c, 4));
    json_["costs"][key] = {{"cost", cost},
                           {"error", program::rounded(r.error, 2)},
                           {"shapes", r.shapes},
                           {"shape", r.shape},
                           {"us", program::rounded(r.us, 4)}};
    if (!r.parameters.empty()) json_["costs"][key]["parameters"] = r.parameters;
    if (r.percent_of_peak > 0) json_["costs"][key]["percent_of_peak"] = program::rounded(r.percent_of_peak, 3);
}

void CostsFile::set_provenance(const Json &provenance) { json_["provenance"] = provenance; }

std::string CostsFile::text() const {
    std::string text = "{\n";
    for (const char *field : {"schema", "op", "target", "provenance"})
        text += "  \"" + std::string(field) + "\": " + json_[field].dump() + ",\n";
    text += "  \"costs\": {";
    const char *before = "\n";
    for (const auto &[key, record] : json_["costs"].items()) {
        text += before + std::string("    ") + Json(key).dump() + ": " + record.dump();
        before = ",\n";
    }
    return text + "\n  }\n}\n";
}

void CostsFile::write() const {
    std::filesystem::create_directories(std::filesystem::path(file_).parent_path());
    program::write_file(file_, text());
}

}  // namespace attune::dispatch
