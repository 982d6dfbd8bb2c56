// SPDX-License-Identifier: MIT
// Search strategies: no candidate is asked twice, none is lost, and the last outcome of each counts.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/strategy.h"
#include <cmath>
#include <functional>
#include <set>

namespace attune::tune {
namespace {

Space space_of(const std::string &parameters, const std::string &constraints = "[]") {
    const TemporaryFolder folder;
    const std::string file =
        folder.write("space.json", R"({"schema": 1, "op": "dot", "spaces": [{"schedules": ["tiles"], "parameters": )" +
                                       parameters + ", \"constraints\": " + constraints + "}]}");
    return Space::read(file, "dot", "tiles", "", {16, 32, 4, 4, 32 << 10, 1 << 20, 64, false});
}

Space example() {
    return space_of(R"({"a": {"values": [1, 2, 4, 8, 16, 32], "stage": 1}, "b": {"values": [1, 2, 4, 8, 16], "stage": 1},
                        "c": {"values": [16, 32, 64, 128, 256], "stage": 2}, "d": {"values": [0, 1, 2], "stage": 3}})",
                    R"([{"for": "sums", "need": "a * b", "of": "registers"}, {"multiple": "c", "of": "a"}])");
}
const Parameters start{{"a", 1}, {"b", 1}, {"c", 16}, {"d", 0}};

// A function whose minimum is at a 8, b 4, c 128 and d 1.
double bowl(const Parameters &n) {
    auto off = [&](const char *name, double best) { return std::pow(std::log2((n.at(name) + 0.1) / (best + 0.1)), 2); };
    return 0.5 + 0.01 * (off("a", 8) + off("b", 4) + off("c", 128) + off("d", 1));
}

using Measure = std::function<Outcome(const Parameters &)>;

// All candidates of a strategy, until it ends; outcomes are told in another order than asked.
std::vector<Parameters> drive(Strategy &strategy, const Measure &measure, std::size_t at_most = 7) {
    std::vector<Parameters> asked;
    for (;;) {
        std::vector<Parameters> batch = strategy.propose(at_most);
        if (batch.empty()) return asked;
        CHECK(batch.size() <= at_most);
        asked.insert(asked.end(), batch.begin(), batch.end());
        for (auto n = batch.rbegin(); n != batch.rend(); ++n) strategy.tell(*n, measure(*n));
        REQUIRE(asked.size() < 10000);
    }
}

TEST_CASE("strategies ask for legal points, the seeds first, none of them twice", "[tune]") {
    const Space space = example();
    const std::vector<Parameters> seeds = {start, {{"a", 4}, {"b", 4}, {"c", 64}, {"d", 2}}};
    for (const std::string &name : strategy_names()) {
        for (const std::size_t at_most : {1, 3, 1000}) {
            CAPTURE(name, at_most);
            const auto strategy = make_strategy(name, space, seeds, 1);
            const auto asked = drive(*strategy, bowl, at_most);
            REQUIRE(asked.size() >= 2);
            CHECK(asked[0] == seeds[0]);
            CHECK(asked[1] == seeds[1]);
            CHECK(std::set<Parameters>(asked.begin(), asked.end()).size() == asked.size());
            for (const Parameters &parameters : asked) CHECK(space.why_not(parameters) == "");
            CHECK(strategy->propose(5).empty());
            if (name == "random" || name == "exhaustive") CHECK(asked.size() == space.all().size());
        }
    }
}

TEST_CASE("searches find the bottom of a bowl with a part of the space", "[tune]") {
    const Space space = example();
    for (const std::string name : {"factored", "descent"}) {
        CAPTURE(name);
        const auto asked = drive(*make_strategy(name, space, {start}, 1), bowl);
        CHECK(asked.size() < space.all().size());
        const Parameters best =
            *std::min_element(asked.begin(), asked.end(), [](auto &a, auto &b) { return bowl(a) < bowl(b); });
        CHECK(best == Parameters{{"a", 8}, {"b", 4}, {"c", 128}, {"d", 1}});
    }
}

TEST_CASE("parameters that are only good together are found by steps of two", "[tune]") {
    const Space space = example();
    const Parameters seed{{"a", 4}, {"b", 4}, {"c", 64}, {"d", 1}}, both{{"a", 8}, {"b", 2}, {"c", 64}, {"d", 1}};
    auto measure = [&](const Parameters &n) -> Outcome { return n == both ? 0.8 : n == seed ? 1.0 : 1.5; };
    const auto asked = drive(*make_strategy("descent", space, {seed}, 1), measure);
    CHECK(std::count(asked.begin(), asked.end(), both) == 1);
    // The search goes on from there.
    for (const Parameters &neighbour : space.neighbours(both)) CHECK(std::count(asked.begin(), asked.end(), neighbour) == 1);
}

TEST_CASE("the same seed and outcomes give the same proposals, whatever the order of telling", "[tune]") {
    const Space space = example();
    for (const std::string &name : strategy_names()) {
        CAPTURE(name);
        const auto first = drive(*make_strategy(name, space, {start}, 3), bowl);
        const auto strategy = make_strategy(name, space, {start}, 3);
        std::vector<Parameters> second;
        for (auto batch = strategy->propose(7); !batch.empty(); batch = strategy->propose(7)) {
            second.insert(second.end(), batch.begin(), batch.end());
            for (const Parameters &parameters : batch) strategy->tell(parameters, bowl(parameters));
        }
        CHECK(first == second);
    }
    CHECK(drive(*make_strategy("random", space, {start}, 1), bowl) != drive(*make_strategy("random", space, {start}, 2), bowl));
}

// Four defects of a tuner that autotuning papers report (pytorch/helion#3518).

TEST_CASE("what was thought of but not asked comes up again", "[tune]") {
    // Small batches interrupt a stage: each of its points must be asked before the next stage.
    const Space space = space_of(R"({"a": {"values": [1, 2, 3, 4, 5, 6], "stage": 1}, "b": {"values": [1, 2], "stage": 2}})");
    const auto strategy = make_strategy("factored", space, {{{"a", 3}, {"b", 1}}}, 1);
    std::vector<Parameters> asked;
    for (auto batch = strategy->propose(1); !batch.empty(); batch = strategy->propose(1)) {
        asked.push_back(batch[0]);
        strategy->tell(batch[0], 1 - 0.1 * (batch[0].at("a") == 6) - 0.1 * (batch[0].at("b") == 2));
    }
    REQUIRE(asked.size() >= 7);
    for (std::size_t n = 0; n < 6; n++) CHECK(asked[n].at("b") == 1);
    CHECK(asked[6] == Parameters{{"a", 6}, {"b", 2}});
    // A point that one sweep left out, because its neighbour was not among the best yet, must be asked by a later one.
    const Space bowls = example();
    const auto descent = make_strategy("descent", bowls, {start}, 1);
    const auto all = drive(*descent, bowl, 1);
    CHECK(std::count(all.begin(), all.end(), Parameters{{"a", 8}, {"b", 4}, {"c", 128}, {"d", 2}}) == 1);
}

TEST_CASE("one candidate at a time is enough for every phase", "[tune]") {
    for (const std::string &name : strategy_names()) {
        CAPTURE(name);
        const Space space = example();
        auto one = drive(*make_strategy(name, space, {start}, 1), bowl, 1);
        CHECK(one == drive(*make_strategy(name, space, {start}, 1), bowl, 1000));
        CHECK(make_strategy(name, space, {start}, 1)->propose(0).empty());
    }
}

TEST_CASE("the best point so far stays one to go on from, whatever comes after it", "[tune]") {
    // The start is the best but for a neighbour of its neighbours; every stage gives worse points.
    const Space space = example();
    const Parameters seed{{"a", 4}, {"b", 2}, {"c", 64}, {"d", 1}}, better{{"a", 4}, {"b", 4}, {"c", 128}, {"d", 1}};
    auto measure = [&](const Parameters &n) -> Outcome {
        if (n == better) return 0.5;
        int steps = 0;
        for (const auto &[name, value] : n) steps += value != seed.at(name);
        return n == seed ? 1.0 : 2.0 - 0.2 * (n == Parameters{{"a", 4}, {"b", 4}, {"c", 64}, {"d", 1}}) + 0.1 * steps;
    };
    for (const std::string name : {"factored", "descent"}) {
        CAPTURE(name);
        const auto strategy = make_strategy(name, space, {seed, start}, 1);
        const auto asked = drive(*strategy, measure);
        // All neighbours of the seed must be asked, though it was measured first and others after it.
        for (const Parameters &neighbour : space.neighbours(seed)) {
            CAPTURE(text_of(neighbour));
            CHECK(std::count(asked.begin(), asked.end(), neighbour) == 1);
        }
    }
}

TEST_CASE("an outcome that is told again replaces the one before", "[tune]") {
    // The first timing of a seed was too low by luck; it is measured again before the search goes on.
    const Space space =
        space_of(R"({"a": {"values": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20], "stage": 1}})");
    const std::vector<Parameters> seeds = {{{"a", 10}}, {{"a", 2}}, {{"a", 3}}, {{"a", 18}}, {{"a", 19}}};
    const auto strategy = make_strategy("descent", space, seeds, 1);
    REQUIRE(strategy->propose(10).size() == 5);
    for (const int a : {2, 3, 10}) strategy->tell({{"a", a}}, 1.1);
    for (const int a : {18, 19}) strategy->tell({{"a", a}}, 0.5);
    for (const int a : {18, 19}) strategy->tell({{"a", a}}, 1.5);
    std::set<int> next;
    for (const Parameters &parameters : strategy->propose(10)) next.insert(parameters.at("a"));
    CHECK(next == std::set<int>{1, 4, 9, 11});
}

TEST_CASE("rejected candidates are no points to go on from", "[tune]") {
    const Space space = example();
    for (const std::string name : {"factored", "descent"}) {
        CAPTURE(name);
        // The bottom of the bowl and its surroundings are rejected: the best remaining point is found.
        auto measure = [](const Parameters &n) -> Outcome {
            if (n.at("a") > 2) return {};
            return bowl(n);
        };
        const auto asked = drive(*make_strategy(name, space, {start}, 1), measure);
        CHECK(std::count(asked.begin(), asked.end(), Parameters{{"a", 2}, {"b", 4}, {"c", 128}, {"d", 1}}) == 1);
        if (name == "descent")
            CHECK(std::count_if(asked.begin(), asked.end(), [](const Parameters &n) { return n.at("a") > 8; }) ==
                  0);  // two steps from 2
    }
    // No candidate is right: the search ends.
    for (const std::string &name : strategy_names()) {
        CAPTURE(name);
        const auto asked = drive(*make_strategy(name, space, {start}, 1), [](const Parameters &) { return Outcome(); });
        CHECK(asked[0] == start);
    }
}

TEST_CASE("a space of one point is searched by asking for it", "[tune]") {
    const Space space = space_of(R"({"a": {"values": [4], "stage": 1}})");
    for (const std::string &name : strategy_names()) {
        CAPTURE(name);
        CHECK(drive(*make_strategy(name, space, {{{"a", 4}}}, 1), [](const Parameters &) { return Outcome(1.0); }).size() == 1);
        CHECK(drive(*make_strategy(name, space, {}, 1), [](const Parameters &) { return Outcome(1.0); }).size() == 1);
    }
}

TEST_CASE("seeds outside of the space stand for their nearest points, once each", "[tune]") {
    const Space space = example();
    const std::vector<Parameters> seeds = {
        {{"a", 64}, {"b", 1}, {"c", 64}, {"d", 0}}, {{"a", 32}, {"b", 1}, {"c", 64}}, {{"tile", 3}}};
    for (const std::string &name : strategy_names()) {
        CAPTURE(name);
        const auto asked = drive(*make_strategy(name, space, seeds, 1), bowl);
        CHECK(asked[0] == Parameters{{"a", 32}, {"b", 1}, {"c", 64}, {"d", 0}});
        CHECK(std::count(asked.begin(), asked.end(), asked[0]) == 1);
    }
}

TEST_CASE("a search waits for outcomes that it depends on, and takes those of earlier runs", "[tune]") {
    const Space space = example();
    for (const std::string name : {"factored", "descent"}) {
        CAPTURE(name);
        const auto strategy = make_strategy(name, space, {start}, 1);
        REQUIRE(strategy->propose(10) == std::vector<Parameters>{start});
        CHECK(strategy->phase() == "seeds");
        CHECK(strategy->propose(10).empty());
        const Parameters known = space.neighbours(start)[0];
        strategy->tell(known, 0.9);
        CHECK(strategy->propose(10).empty());
        strategy->tell(start, 1.0);
        const auto next = strategy->propose(1000);
        CHECK(!next.empty());
        CHECK(std::count(next.begin(), next.end(), known) == 0);
        CHECK(strategy->phase() == (name == std::string("descent") ? "descent from " + text_of(known) : "stage 1 of 3"));
    }
    CHECK_THROWS_AS(make_strategy("annealing", space, {start}, 1), program::InputError);
}

}  // namespace
}  // namespace attune::tune
