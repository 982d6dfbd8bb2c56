// SPDX-License-Identifier: MIT
// Replay: searches that records answer.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/records.h"
#include "tools/tune/replay.h"
#include "tools/tune/strategy.h"
#include <cmath>
#include <set>
#include <sstream>

namespace attune::tune {
namespace {
using nlohmann::json;

Record record_of(const Parameters &parameters, double ratio) {
    Record record;
    record.key.target = "zen4", record.key.op = "masked_softmax", record.key.dtype = "f32", record.key.schedule = "rows";
    record.key.shape = "512x512", record.key.baseline = "block=16 task_rows=2";
    record.parameters = parameters, record.verdict = "timed";
    record.ratios = {ratio + 0.01, ratio, 7 * ratio};  // the median counts
    return record;
}

double ratio_of(const Parameters &n) {
    return 0.8 + 0.1 * std::abs(std::log2(n.at("task_rows") / 16.0)) + 0.05 * std::abs(std::log2(n.at("block") / 32.0)) +
           0.02 * n.at("prefetch_rows");
}

// Records of every point of the space of masked_softmax, except those with the parameters `without`.
std::string recorded(const TemporaryFolder &folder, const Parameters &without = {}) {
    const Space space = Space::read(std::string(ATTUNE_SCHEDULES) + "/masked_softmax/space.json", "masked_softmax", "rows", "",
                                    {16, 32, 4, 4, 32 << 10, 1 << 20, 0, false});
    std::string lines;
    for (const Parameters &parameters : space.all())
        if (parameters != without) lines += json_of(record_of(parameters, ratio_of(parameters))).dump() + "\n";
    return folder.write("records.jsonl", lines);
}

std::vector<json> replayed(const ReplayArguments &arguments) {
    std::istringstream in(replay(arguments));
    std::vector<json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(json::parse(line));
    return lines;
}

TEST_CASE("a replayed search says how far it is from the best of all records", "[tune]") {
    const TemporaryFolder folder;
    for (const std::string &name : strategy_names()) {
        CAPTURE(name);
        const auto lines = replayed({recorded(folder), ATTUNE_SCHEDULES, name, 3, 100});
        REQUIRE(lines.size() == 1);
        const json &line = lines[0];
        CHECK(line.at("recorded") == 56);
        CHECK(line.at("missing") == 0);
        CHECK(line.at("start") == "block=16 prefetch_rows=0 task_rows=2");
        CHECK(line.at("best").at("parameters") == "block=32 prefetch_rows=0 task_rows=16");
        CHECK(line.at("best").at("ratio").get<double>() == Approx(0.81));
        const auto regret = line.at("regret").get<std::vector<double>>();
        CHECK(regret.front() == Approx((ratio_of({{"block", 16}, {"prefetch_rows", 0}, {"task_rows", 2}}) + 0.01) / 0.81));
        CHECK(regret.back() == 1);
        CHECK(std::is_sorted(regret.rbegin(), regret.rend()));
        CHECK(regret.size() <= 56);
        CHECK(lines == replayed({recorded(folder), ATTUNE_SCHEDULES, name, 3, 100}));
        CHECK(replayed({recorded(folder), ATTUNE_SCHEDULES, name, 3, 5})[0].at("regret").size() == 5);
    }
}

TEST_CASE("a replayed search counts what no record has, and starts where the seed says", "[tune]") {
    const TemporaryFolder folder;
    const Parameters best{{"block", 32}, {"prefetch_rows", 0}, {"task_rows", 16}};
    const auto lines = replayed({recorded(folder, best), ATTUNE_SCHEDULES, "exhaustive", 1, 100});
    CHECK(lines.at(0).at("missing") == 1);
    CHECK(lines.at(0).at("regret").size() == 55);
    std::set<std::string> starts;
    for (const std::uint64_t seed : {1, 2, 3, 4}) {
        ReplayArguments arguments{recorded(folder), ATTUNE_SCHEDULES, "random", seed, 100};
        arguments.random_start = true;
        starts.insert(replayed(arguments).at(0).at("start").get<std::string>());
    }
    CHECK(starts.size() > 1);
    CHECK_THROWS_AS(replay({folder / "none.jsonl", ATTUNE_SCHEDULES}), program::InputError);
    CHECK_THROWS_AS(replay({recorded(folder), folder / "none"}), program::InputError);
    CHECK_THROWS_AS(replay({recorded(folder), ATTUNE_SCHEDULES, "annealing"}), program::InputError);
}

TEST_CASE("rejected candidates cost a replayed search one each", "[tune]") {
    const TemporaryFolder folder;
    const Parameters best{{"block", 32}, {"prefetch_rows", 0}, {"task_rows", 16}};
    recorded(folder, best);
    Record record = record_of(best, 1);
    record.verdict = "rejected", record.reason = "out: element 3", record.ratios.clear();
    RecordLog(folder / "records.jsonl").append(record);
    const auto lines = replayed({folder / "records.jsonl", ATTUNE_SCHEDULES, "exhaustive", 1, 100});
    CHECK(lines.at(0).at("rejected") == 1);
    CHECK(lines.at(0).at("missing") == 0);
    CHECK(lines.at(0).at("regret").size() == 56);
}

}  // namespace
}  // namespace attune::tune
