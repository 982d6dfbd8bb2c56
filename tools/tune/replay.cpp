// SPDX-License-Identifier: MIT
#include "replay.h"
#include "records.h"
#include "strategy.h"
#include "tools/error.h"
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

namespace attune::tune {
namespace {
using nlohmann::ordered_json;
using program::InputError;

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// Records of one key: the last verdict of each point, and all ratios of its timings.
struct Recorded {
    RecordKey key;
    std::map<Parameters, std::vector<double>> timed;
    std::map<Parameters, std::string> rejected;
};

std::vector<Recorded> recorded_in(const std::string &file) {
    std::vector<Recorded> all;
    for (const Record &record : read_records(file)) {
        auto of = std::find_if(all.begin(), all.end(), [&](const Recorded &r) { return r.key == record.key; });
        if (of == all.end()) of = all.insert(all.end(), {record.key, {}, {}});
        if (record.verdict != "timed") {
            of->rejected[record.parameters] = record.verdict;
        } else if (!record.ratios.empty()) {
            auto &ratios = of->timed[record.parameters];
            ratios.insert(ratios.end(), record.ratios.begin(), record.ratios.end());
        }
    }
    if (all.empty()) throw InputError(file, "holds no records");
    return all;
}

Space space_of(const RecordKey &key, const std::string &schedules) {
    const std::string targets = schedules + "/targets.json";
    std::ifstream in(targets);
    if (!in) throw InputError(targets, "cannot be read");
    std::string halide;
    try {
        halide = nlohmann::json::parse(in).at("targets").at(key.target).at("halide");
    } catch (const nlohmann::json::exception &error) {
        throw InputError(targets, error.what());
    }
    return Space::read(schedules + "/" + key.op + "/space.json", key.op, key.schedule, key.shape_class,
                       facts_of(halide, key.dtype, key.head_dim, caches_here()));
}

ordered_json replay(const Recorded &recorded, const ReplayArguments &arguments) {
    const Space space = space_of(recorded.key, arguments.schedules);
    std::map<Parameters, double> ratios;  // by point of the space
    for (const auto &[parameters, of] : recorded.timed)
        if (space.why_not(parameters).empty()) ratios[space.nearest(parameters)] = median_of(of);
    if (ratios.empty()) throw InputError(arguments.records, "no timed record of " + recorded.key.shape + " is in its space");
    const auto best = std::min_element(ratios.begin(), ratios.end(), [](auto &a, auto &b) { return a.second < b.second; });

    Parameters start = space.nearest(parse_parameters(recorded.key.baseline));
    if (arguments.random_start)
        start = std::next(ratios.begin(), std::ptrdiff_t(std::mt19937_64(arguments.seed)() % ratios.size()))->first;
    const auto strategy = make_strategy(arguments.strategy, space, {start}, arguments.seed);
    std::optional<double> reached;
    std::vector<std::string> phases;
    ordered_json regret = ordered_json::array();
    std::size_t missing = 0, rejected = 0;
    while (regret.size() < arguments.budget) {
        const auto batch = strategy->propose(1);
        if (batch.empty()) break;
        if (phases.empty() || phases.back() != strategy->phase()) phases.push_back(strategy->phase());
        const auto found = ratios.find(batch[0]);
        if (found == ratios.end()) {
            strategy->tell(batch[0], {});
            (recorded.rejected.contains(batch[0]) ? rejected : missing)++;
            if (!recorded.rejected.contains(batch[0])) continue;
        } else {
            strategy->tell(batch[0], found->second);
            reached = std::min(reached.value_or(found->second), found->second);
        }
        regret.push_back(reached ? ordered_json(*reached / best->second) : ordered_json());
    }
    ordered_json line;
    Record of_key;
    of_key.key = recorded.key;
    line["key"] = json_of(of_key).at("key");
    line["strategy"] = arguments.strategy, line["seed"] = arguments.seed, line["start"] = text_of(start);
    line["recorded"] = ratios.size(), line["rejected"] = rejected, line["missing"] = missing;
    line["best"] = {{"parameters", text_of(best->first)}, {"ratio", best->second}};
    line["phases"] = phases, line["regret"] = regret;
    return line;
}

}  // namespace

std::string replay(const ReplayArguments &arguments) {
    std::string lines;
    for (const Recorded &recorded : recorded_in(arguments.records)) lines += replay(recorded, arguments).dump() + "\n";
    return lines;
}

}  // namespace attune::tune
