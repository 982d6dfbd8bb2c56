// SPDX-License-Identifier: MIT
#include "times.h"
#include "tools/error.h"
#include <algorithm>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

namespace attune::dispatch {
namespace {

std::string key_of(const bench::Shape &s) { return s.op + " " + name_of(s.dtype) + " " + s.label(); }

}  // namespace

double ShapeTimes::least() const {
    double least = std::numeric_limits<double>::infinity();
    for (const auto &[variant, time] : seconds)
        if (!variant.empty()) least = std::min(least, time);
    return least;
}

ShapeTimes time_variants(TimedMachine &machine, const bench::Shape &shape, const std::vector<std::string> &variants,
                         const Sampling &how) {
    constexpr double hopeless = 3;
    constexpr int rounds_of_all = 2;  // a single sample may fall into a moment in which others compute
    const std::unique_ptr<TimedCall> timed = machine.call_of(shape);
    // The first call faults pages in and wakes threads; a variant may refuse sizes that others take.
    std::vector<std::string> names;
    for (const std::string &variant : variants)
        if (timed->call(variant).ok()) names.push_back(variant);
    std::vector<double> best(names.size(), std::numeric_limits<double>::infinity());
    std::vector<std::size_t> order(names.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::mt19937 random(how.seed);
    const double start = seconds_now(), others = machine.seconds_of_others();
    for (int round = 0; round < how.rounds; round++) {
        const double least = names.empty() ? 0 : *std::min_element(best.begin(), best.end());
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t n : order)
            if (round < rounds_of_all || best[n] <= hopeless * least)
                best[n] = std::min(best[n], timed->sample(names[n], how.seconds));
    }
    ShapeTimes times{shape, {}, std::max(0.0, machine.seconds_of_others() - others) / std::max(1e-9, seconds_now() - start)};
    for (std::size_t n = 0; n < names.size(); n++) times.seconds[names[n]] = best[n];
    return times;
}

ShapeTimes quiet_times(TimedMachine &machine, const bench::Shape &shape, const std::vector<std::string> &variants,
                       const Sampling &how) {
    constexpr int most = 3;
    ShapeTimes quietest = time_variants(machine, shape, variants, how);
    for (int n = 1; n < most && quietest.foreign_load > quiet_load; n++) {
        ShapeTimes again = time_variants(machine, shape, variants, how);
        if (again.foreign_load < quietest.foreign_load) quietest = std::move(again);
    }
    return quietest;
}

TimesLog::TimesLog(const std::string &file, std::string key) : log_(file), key_(std::move(key)) {
    std::ifstream in(file);
    for (std::string line; std::getline(in, line);) {
        const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);  // a killed run leaves half a line
        if (json.is_discarded()) continue;
        try {
            if (json.at("key") != key_) continue;
            ShapeTimes times;
            for (const auto &[variant, seconds] : json.at("seconds").items()) times.seconds[variant] = seconds.get<double>();
            known_[json.at("shape").get<std::string>()] = times;
        } catch (const nlohmann::json::exception &error) {
            throw program::InputError(file, error.what());
        }
    }
}

const ShapeTimes *TimesLog::find(const bench::Shape &shape) const {
    const auto found = known_.find(key_of(shape));
    return found == known_.end() ? nullptr : &found->second;
}

void TimesLog::append(const ShapeTimes &times) {
    log_.append(nlohmann::ordered_json{{"key", key_}, {"shape", key_of(times.shape)}, {"seconds", times.seconds}});
}

}  // namespace attune::dispatch
