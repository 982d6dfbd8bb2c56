// SPDX-License-Identifier: MIT
// Agreement of cmake/check_parameters.py, which checks users' records, with the tuner's Space, which checks candidates: both
// read a space alike.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/tune/space.h"
#include <cstdlib>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

namespace attune::tune {
namespace {
using nlohmann::json;

json read_json(const std::filesystem::path &file) {
    std::ifstream in(file);
    return json::parse(in);
}

// The file's records, each with a parameter left out, unknown or of another value, which may be one of its space.
json altered(const json &file, std::mt19937 &random) {
    json records = json::array();
    for (const json &shipped : file.at("records")) {
        if (shipped.at("schedule") == "root" || !shipped.contains("parameters") || shipped.at("parameters").empty()) continue;
        json record = shipped;
        json &parameters = record["parameters"];
        auto parameter = parameters.begin();
        std::advance(parameter, std::ptrdiff_t(random() % parameters.size()));
        const int value = parameter->get<int>(), values[] = {0, 1, value / 2, 2 * value, 3 * value, value + 1, 64};
        const std::string name = parameter.key();
        if (const unsigned what = random() % 10; what == 0)
            parameters.erase(name);
        else if (what == 1)
            parameters[name + "s"] = value;
        else
            parameters[name] = values[random() % std::size(values)];
        records.push_back(record);
    }
    return records;
}

// Numbers of the records that check_parameters.py refuses.
std::set<std::size_t> refused(const TemporaryFolder &folder, const std::string &op, const json &file) {
    const std::string records = folder.write("records.json", file.dump()), lines = folder / "lines.txt";
    const std::string schedules = ATTUNE_SCHEDULES;
    const int status = std::system((ATTUNE_PYTHON " " + schedules + "/../cmake/check_parameters.py " + schedules + " " + op +
                                    ":" + records + " > " + lines)
                                       .c_str());
    CHECK(WEXITSTATUS(status) <= 1);
    std::set<std::size_t> all;
    std::ifstream in(lines);
    for (std::string line; std::getline(in, line);) all.insert(std::stoul(line.substr(line.find("record ") + 7)));
    return all;
}

}  // namespace

TEST_CASE("records of users are refused where the tuner's space does not have them", "[tune]") {
    const TemporaryFolder folder;
    const std::filesystem::path schedules = ATTUNE_SCHEDULES;
    const json targets = read_json(schedules / "targets.json").at("targets");
    const unsigned seed = std::random_device()();
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::size_t legal = 0, illegal = 0;
    std::map<std::string, std::unique_ptr<Space>> spaces;
    const char *const files[][2] = {{"sdpa", "zen4"},          {"sdpa", "generic"},   {"sdpa", "sapphirerapids"},
                                    {"linear", "zen5"},        {"batch_dot", "zen4"}, {"additive_backward", "generic"},
                                    {"sdpa_backward", "zen4"}, {"cosine", "avx2"},    {"masked_softmax", "generic"}};
    for (const auto &[op, target] : files) {
        const auto path = schedules / op / "tuned" / (std::string(target) + ".json");
        if (!std::filesystem::exists(path)) continue;
        json file = read_json(path);
        file["records"] = altered(file, random);
        const std::set<std::size_t> by_script = refused(folder, op, file);
        for (std::size_t n = 0; n < file["records"].size(); n++) {
            const json &record = file["records"][n];
            const int any = std::numeric_limits<int>::max();  // the script has no constraints on caches
            const Facts facts =
                facts_of(targets.at(target).at("halide"), record.at("dtype"), record.at("head_dim"), {any, any});
            const std::string schedule = record.at("schedule"), shape_class = record.at("class");
            const std::string key = json{op, target, schedule, shape_class, record.at("dtype"), record.at("head_dim")}.dump();
            if (!spaces.contains(key))
                spaces[key].reset(
                    new Space(Space::read((schedules / op / "space.json").string(), op, schedule, shape_class, facts)));
            const std::string why_not = spaces.at(key)->why_not(record.at("parameters").get<Parameters>());
            CAPTURE(op, target, record.dump(), why_not);
            CHECK(by_script.contains(n) == !why_not.empty());
            (why_not.empty() ? legal : illegal)++;
        }
    }
    CHECK(legal > 10);
    CHECK(illegal > 60);
}

}  // namespace attune::tune
