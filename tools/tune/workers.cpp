// SPDX-License-Identifier: MIT
#include "workers.h"
#include "shapes_file.h"
#include "subprocess.h"
#include "tools/error.h"
#include <sstream>

namespace attune::tune {
namespace {

// The complete lines of a worker's answer: one that crashed may have left half a line.
std::vector<nlohmann::json> answers_of(const std::string &output) {
    std::vector<nlohmann::json> answers;
    std::istringstream lines(output);
    for (std::string line; std::getline(lines, line);)
        if (nlohmann::json answer = nlohmann::json::parse(line, nullptr, false); answer.is_object())
            answers.push_back(std::move(answer));
    return answers;
}

// The last activity of a worker that ended without an answer, in words.
std::string failure_of(const ProcessResult &result, const std::vector<nlohmann::json> &answers, double limit) {
    std::string doing;
    for (const nlohmann::json &answer : answers) {
        if (answer.contains("error")) throw program::MachineError("worker", answer["error"].get<std::string>());
        if (answer.contains("checking")) doing = answer["checking"].get<std::string>();
    }
    const std::string how = result.ok() ? "ended without an answer" : result.failure(limit);
    return doing.empty() ? how : doing + ": " + how;
}

}  // namespace

Workers::Workers(const Cell &cell, std::string self, std::string expected, int threads)
    : cell_(cell), self_(std::move(self)), expected_(std::move(expected)), threads_(threads) {}

std::vector<double> Times::ratios(std::size_t candidate) const {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < seconds[candidate].size(); round++)
        ratios.push_back(seconds[candidate][round] / seconds[0][round]);
    return ratios;
}

nlohmann::json Workers::job(const char *mode, const std::vector<Candidate> &candidates) const {
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t n = 0; n < candidates.size(); n++) {
        const Candidate &c = candidates[n];
        list.push_back(
            {{"id", std::to_string(n)}, {"object", c.object}, {"symbol", c.symbol}, {"parameters", text_of(c.parameters)}});
        if (!c.schedule.empty()) list.back()["schedule"] = c.schedule, list.back()["shape_class"] = c.shape_class;
    }
    nlohmann::json job = {{"mode", mode},
                          {"variant",
                           {{"name", cell_.variant},
                            {"op", cell_.op},
                            {"dtype", cell_.dtype},
                            {"head_dim", cell_.head_dim},
                            {"target", cell_.target},
                            {"schedule", cell_.schedule},
                            {"shape_class", cell_.shape_class},
                            {"kind", cell_.kind}}},
                          {"candidates", list},
                          {"threads", threads_},
                          {"seed", 1}};
    if (cell_.user) job["attention"] = {{"module", cell_.user.module}, {"captures", cell_.user.captures}};
    return job;
}

Verdict Workers::check(const Candidate &candidate, const std::vector<bench::Shape> &shapes, double limit, bool awkward) const {
    nlohmann::json job = this->job("check", {candidate});
    for (const bench::Shape &shape : shapes) job["shapes"].push_back(json_of(shape));
    job["expected"] = expected_, job["awkward"] = awkward;
    const ProcessResult result = run({{self_, "tune-worker"}, job.dump(), limit});
    const std::vector<nlohmann::json> answers = answers_of(result.output);
    for (const nlohmann::json &answer : answers)
        if (answer.contains("right"))
            return {answer["right"], answer.value("reason", std::string()), answer.value("error_ratio", 0.0)};
    return {false, failure_of(result, answers, limit), 0, result.timed_out};
}

Times Workers::time(const std::vector<Candidate> &candidates, const bench::Shape &shape, const TimeJob &given) const {
    nlohmann::json job = this->job("time", candidates);
    job["shape"] = json_of(shape), job["peak"] = given.peak;
    job["rounds"] = given.rounds, job["sample_seconds"] = given.sample_seconds, job["cold"] = given.cold;
    job["seed"] = given.seed;
    const ProcessResult result = run({{self_, "tune-worker"}, job.dump(), given.limit});
    Times times;
    times.seconds.resize(candidates.size()), times.products.resize(candidates.size());
    const std::vector<nlohmann::json> answers = answers_of(result.output);
    std::size_t answered = 0;
    for (const nlohmann::json &answer : answers) {
        if (answer.contains("seconds")) {
            times.seconds.at(std::stoul(answer["id"].get<std::string>())) = answer["seconds"].get<std::vector<double>>();
            answered++;
        }
        if (answer.contains("products")) times.products.at(std::stoul(answer["id"].get<std::string>())) = answer["products"];
        if (answer.contains("peak")) times.limit = {answer["work"], answer["peak"], answer["unit"]};
        times.foreign_load = answer.value("foreign_load", times.foreign_load);
    }
    if (!result.ok() || answered != candidates.size()) {
        times = {};
        times.failure = failure_of(result, answers, given.limit), times.timed_out = result.timed_out;
    }
    return times;
}

}  // namespace attune::tune
