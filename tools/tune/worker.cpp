// SPDX-License-Identifier: MIT
// Jobs of a worker as JSON, and its answers.
#include "worker.h"
#include "bench/cases/shapes.h"
#include "candidate.h"
#include "gate.h"
#include "timing.h"
#include "tools/error.h"
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace attune::tune {
namespace {

using Json = nlohmann::ordered_json;

struct Job {
    CandidateVariant variant;
    std::vector<LoadableCandidate> candidates;
    UserAttention user;
    std::vector<bench::Shape> shapes;
    Json given;
};

std::string text_of(const Json &value) {
    if (value.is_string()) return value.get<std::string>();
    return value.is_boolean() ? (value.get<bool>() ? "1" : "0") : value.dump();
}

bench::Shape read_shape(const Json &given) {
    bench::Columns columns;
    for (const auto &[name, value] : given.items()) columns.emplace_back(name, text_of(value));
    bench::Shape shape;
    if (const std::string wrong = bench::read_columns(columns, shape); !wrong.empty())
        throw program::InputError("shape", wrong);
    return shape;
}

Job read_job(std::istream &in) {
    Job job;
    job.given = Json::parse(in);
    const Json &variant = job.given.at("variant");
    for (const auto &[name, to] : {std::pair("name", &job.variant.name),
                                   {"op", &job.variant.op},
                                   {"dtype", &job.variant.dtype},
                                   {"target", &job.variant.target},
                                   {"schedule", &job.variant.schedule},
                                   {"shape_class", &job.variant.shape_class},
                                   {"kind", &job.variant.kind}})
        *to = variant.at(name).get<std::string>();
    job.variant.head_dim = variant.at("head_dim").get<int>();
    for (const Json &c : job.given.at("candidates"))
        job.candidates.push_back({c.at("id").get<std::string>(), c.at("object").get<std::string>(),
                                  c.at("symbol").get<std::string>(), c.at("parameters").get<std::string>(),
                                  c.value("schedule", std::string()), c.value("shape_class", std::string())});
    if (job.given.contains("attention")) {
        const Json &user = job.given["attention"];
        job.user.module = user.at("module").get<std::string>();
        for (const auto &[name, value] : user.at("captures").items()) job.user.captures[name] = text_of(value);
    }
    if (job.given.contains("shape")) job.shapes.push_back(read_shape(job.given["shape"]));
    if (job.given.contains("shapes"))
        for (const Json &shape : job.given["shapes"]) job.shapes.push_back(read_shape(shape));
    if (job.shapes.empty()) throw program::InputError("shapes", "none given");
    return job;
}

class Worker {
public:
    Worker(Job job, std::ostream &out) : job_(std::move(job)), out_(out) {}

    void run() {
        const std::string mode = job_.given.at("mode").get<std::string>();
        if (mode != "check" && mode != "time") throw program::InputError("mode", "expected check or time, is \"" + mode + "\"");
        if (job_.user) load_attention(job_.user.module);
        for (const LoadableCandidate &c : job_.candidates) {
            try {
                loaded_.emplace_back(c.id, load_candidate(job_.variant, c));
            } catch (const program::MachineError &error) {
                answer({{"id", c.id}, {"right", false}, {"reason", error.what()}});
            }
        }
        mode == "check" ? check() : time();
    }

private:
    // Writes a line at once: the next candidate may crash the process.
    void answer(const Json &line) { out_ << line.dump() << '\n' << std::flush; }

    template<typename T> T option(const char *name, T otherwise) const { return job_.given.value(name, otherwise); }

    void check() {
        for (const auto &[id, name] : loaded_) {
            const GateJob gate{.variant = name,
                               .shapes = job_.shapes,
                               .user = job_.user,
                               .awkward = option("awkward", true),
                               .threads = option("threads", 0),
                               .seed = option("seed", 1u),
                               .expected = option("expected", std::string())};
            const Judgement judged = judge_candidate(gate, [&, &id = id](const std::string &text) {
                answer({{"id", id}, {"checking", text}});
            });
            if (judged.right)
                answer({{"id", id}, {"right", true}, {"error_ratio", judged.error_ratio}});
            else
                answer({{"id", id}, {"right", false}, {"reason", judged.reason}});
        }
    }

    void time() {
        TimingJob timing{.op = job_.variant.op,
                         .shape = job_.shapes.front(),
                         .user = job_.user,
                         .threads = option("threads", 0),
                         .seed = option("seed", 1u),
                         .rounds = option("rounds", 6),
                         .sample_seconds = option("sample_seconds", 0.01),
                         .cold = option("cold", false)};
        if (option("peak", false)) timing.peak_of = job_.variant.schedule;
        std::vector<std::string> variants;
        for (const auto &[id, name] : loaded_) variants.push_back(name);
        if (variants.empty()) return;
        const Timings timings = time_variants(timing, variants);
        for (std::size_t n = 0; n < loaded_.size(); n++) {
            answer({{"id", loaded_[n].first}, {"seconds", timings.seconds[n]}});
            if (!timings.products.empty()) answer({{"id", loaded_[n].first}, {"products", timings.products[n]}});
        }
        if (timing.peak_of) answer({{"peak", timings.limit.peak}, {"work", timings.limit.work}, {"unit", timings.limit.unit}});
        answer({{"foreign_load", timings.foreign_load}});
    }

    Job job_;
    std::ostream &out_;
    std::vector<std::pair<std::string, std::string>> loaded_;  // id and name of the variant
};

}  // namespace

int run_worker(std::istream &in, std::ostream &out) {
    try {
        Worker(read_job(in), out).run();
        return 0;
    } catch (const std::exception &error) {
        out << Json{{"error", error.what()}}.dump() << '\n' << std::flush;
        return 1;
    }
}

int run_worker() { return run_worker(std::cin, std::cout); }

}  // namespace attune::tune
