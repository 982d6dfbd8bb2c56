// SPDX-License-Identifier: MIT
// The tuner's view of a user's attention: calls with captures from files, and their check against root kernels.
#include "attune/detail/user_attention.h"
#include "tests/support/catch.h"
#include "tests/tune/temporary.h"
#include "tools/error.h"
#include "tools/files/npy.h"
#include "tools/tune/gate.h"
#include "tools/tune/user_captures.h"
#include "tools/tune/worker.h"
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

using namespace attune::tune;
using attune::program::InputError;

namespace {

std::string npy(const TemporaryFolder &folder, const std::string &name, const std::vector<float> &values) {
    std::string text = attune::program::npy_header(attune::program::ElementType::f32, {std::int64_t(values.size())});
    text.append(reinterpret_cast<const char *>(values.data()), 4 * values.size());
    return folder.write(name, text);
}

bench::Shape shape(attune::DType dtype = attune::DType::f32) {
    bench::Shape s;
    s.dtype = dtype, s.b = 2, s.h = 4, s.kv = 2, s.q = 37, s.k = 70, s.d = 16, s.dv = 24;
    return s;
}

attune::VariantInfo prefill_of(std::string_view op, std::string_view schedule) {
    for (const attune::VariantInfo &v : attune::variants())
        if (v.op == op && v.dtype == attune::DType::f32 && v.schedule == schedule && v.runs_here && v.dispatched) return v;
    FAIL("no variant of " << op);
    return {};
}

// Runs a variant on a case and checks it.
std::string defect(bench::Case &c, std::string_view variant) {
    attune::Context context({.threads = 2});
    c.forget_output();
    const attune::Status status = c.call(context, variant);
    return status.ok() ? c.check_output() : status.message();
}

template<typename F> std::string error_of(const F &f) {
    try {
        f();
    } catch (const InputError &e) {
        return e.what();
    }
    return "no error";
}

}  // namespace

TEST_CASE("user case: attention and gradients with captures are right by root's word", "[tune]") {
    const TemporaryFolder folder;
    const Captures captures = {{"slopes", npy(folder, "slopes.npy", {0.5f, 0.25f, 0.125f, 0.0625f})}};
    for (const auto &[op, schedule] :
         {std::pair("user_alibi_attention", "prefill"), {"user_alibi_attention_backward", "blocked"}}) {
        const attune::VariantInfo v = prefill_of(op, schedule);
        INFO(v.name);
        CHECK(defect(*make_user_case(op, shape(), captures), v.name) == "");
        const std::vector<bench::Shape> awkward = awkward_user_shapes(v, shape());
        CHECK(awkward.size() >= 8);
        for (const bench::Shape &s : awkward) {
            INFO(s.label());
            CHECK(s.q <= 37);
            CHECK(s.k <= 70);
            CHECK(defect(*make_user_case(op, s, captures), v.name) == "");
        }
    }
}

TEST_CASE("user case: other captures than those of the call are wrong", "[tune]") {
    const TemporaryFolder folder;
    const Captures one = {{"slopes", npy(folder, "one.npy", {0.5f, 0.25f, 0.125f, 0.0625f})}},
                   other = {{"slopes", npy(folder, "other.npy", {0.5f, 0.25f, 0.125f, 0.07f})}};
    const auto right = make_user_case("user_alibi_attention", shape(), one),
               wrong = make_user_case("user_alibi_attention", shape(), other);
    CHECK(defect(*right, {}) == "");
    // The reference of one case, for the output of the other.
    wrong->sample(1e12, 1), right->sample(1e12, 1);
    bench::Expected expected = right->expected();
    wrong->expect(std::move(expected));
    CHECK(defect(*wrong, {}).find("out") != std::string::npos);
}

TEST_CASE("user case: captures that are not as the struct has them are refused", "[tune]") {
    const TemporaryFolder folder;
    const auto made = [&](const Captures &captures, attune::DType dtype = attune::DType::f32) {
        return error_of([&] { make_user_case("user_alibi_attention", shape(dtype), captures); });
    };
    const std::string slopes = npy(folder, "slopes.npy", {0.5f, 0.25f, 0.125f, 0.0625f});
    CHECK(made({}).find("--capture slopes: must be given") == 0);
    CHECK(made({{"slopes", slopes}, {"rate", "1"}}).find("--capture rate: ") == 0);
    CHECK(made({{"slopes", "1"}}).find("--capture slopes: ") == 0);
    CHECK(made({{"slopes", slopes}}, attune::DType::f64).find("f64") != std::string::npos);
    CHECK(error_of([] { make_user_case("no_attention", shape(), {}); }).find("no_attention: ") == 0);
}

TEST_CASE("user case: the module that the tuner loads has the attention and its root kernels", "[tune]") {
    // every_other is linked in with prefill only, in f32.
    const auto roots = [] {
        int count = 0;
        for (const attune::VariantInfo &v : attune::variants()) count += v.op == "user_every_other" && v.schedule == "root";
        return count;
    };
    CHECK(roots() == 0);
    const attune::detail::AttentionRecord *linked = attune::detail::find_attention("user_every_other");
    REQUIRE(linked);
    load_attention(EVERY_OTHER_MODULE);
    CHECK(roots() == 2);
    const attune::detail::AttentionRecord *loaded = attune::detail::find_attention("user_every_other_backward");
    REQUIRE(loaded);
    CHECK(loaded != linked);
    CHECK(loaded->name == "every_other");
    CHECK(loaded->op == "user_every_other");
    for (const char *op : {"user_every_other", "user_every_other_backward"})
        CHECK(defect(*make_user_case(op, shape(), {{"step", "3"}}), {}) == "");
    CHECK_THROWS_AS(load_attention("/there/is/no/module.so"), attune::program::MachineError);
}

namespace {

using Json = nlohmann::ordered_json;

// Answers of a worker in this process.
std::vector<Json> work(const Json &job) {
    std::istringstream in(job.dump());
    std::ostringstream out;
    run_worker(in, out);
    std::vector<Json> answers;
    std::istringstream lines(out.str());
    for (std::string line; std::getline(lines, line);) answers.push_back(Json::parse(line));
    REQUIRE(!answers.empty());
    return answers;
}

// Job with every_other's own prefill kernel as the candidate.
Json job_of_module(const std::string &step) {
    const attune::VariantInfo v = prefill_of("user_every_other", "prefill");
    const auto text = [](std::string_view of) { return std::string(of); };
    const Json shape = {{"b", 2}, {"h", 4}, {"kv", 2}, {"q", 37}, {"k", 70}, {"d", 16}, {"dv", 24}};
    Json wide = shape;
    wide["k"] = 90;
    return {{"mode", "check"},
            {"variant",
             {{"name", text(v.name)},
              {"op", text(v.op)},
              {"dtype", "f32"},
              {"head_dim", v.head_dim},
              {"target", text(v.target)},
              {"schedule", text(v.schedule)},
              {"shape_class", text(v.shape_class)},
              {"kind", text(v.kind)}}},
            {"candidates",
             {{{"id", "0"}, {"object", EVERY_OTHER_MODULE}, {"symbol", text(v.name)}, {"parameters", text(v.parameters)}}}},
            {"attention", {{"module", EVERY_OTHER_MODULE}, {"captures", {{"step", step}}}}},
            {"shapes", {shape, wide}},
            {"threads", 2}};
}

// The prefill kernel of alibi_attention, with a wrong scale.
int (*right_kernel)(void **) = nullptr;
int wrong_kernel(void **arguments) {
    *static_cast<double *>(arguments[9]) *= 1.01;
    return right_kernel(arguments);
}

}  // namespace

TEST_CASE("worker: a user's attention is checked with its captures, and what is expected is kept by them", "[tune]") {
    const TemporaryFolder folder;
    std::vector<std::ptrdiff_t> files;
    for (const char *step : {"3", "2", "3"}) {
        Json job = job_of_module(step);
        job["expected"] = folder / "";
        const std::vector<Json> answers = work(job);
        INFO(answers.back().dump());
        CHECK(answers.back().value("right", false));
        std::size_t tuning_shapes = 0;
        for (const Json &answer : answers) tuning_shapes += answer.value("checking", "").find("tuning shape") == 0;
        CHECK(tuning_shapes == 2);
        CHECK(answers.size() > 10);
        files.push_back(std::distance(std::filesystem::directory_iterator(folder / ""), {}));
    }
    CHECK(files == std::vector<std::ptrdiff_t>{2, 4, 4});
    Json job = job_of_module("3");
    job["attention"]["captures"] = {{"step", "many"}};
    CHECK(work(job).back().value("error", "").find("--capture step: ") == 0);
    job["attention"]["module"] = "/there/is/no/module.so";
    CHECK(work(job).back().value("error", "").find("/there/is/no/module.so: ") == 0);
    job = job_of_module("3"), job["mode"] = "time", job["shape"] = job["shapes"][0], job["rounds"] = 2, job["peak"] = true;
    job.erase("shapes");
    const std::vector<Json> answers = work(job);
    CHECK(answers.front()["seconds"].size() == 2);
    CHECK(answers.back().contains("foreign_load"));
    for (const Json &answer : answers) CHECK_FALSE(answer.contains("products"));  // a mask leaves out pairs that no shape knows
}

TEST_CASE("gate: a user's attention that is wrong is refused", "[tune]") {
    const TemporaryFolder folder;
    const attune::VariantInfo v = prefill_of("user_alibi_attention", "prefill");
    const attune::detail::AttentionRecord *attention = attune::detail::find_attention("user_alibi_attention");
    REQUIRE(attention);
    static attune::detail::VariantRecord wrong;
    for (const attune::detail::VariantRecord &record : attention->variants)
        if (record.name == v.name) wrong = record;
    REQUIRE(wrong.kernel);
    right_kernel = wrong.kernel;
    wrong.name = "alibi_attention_wrong", wrong.kernel = wrong_kernel, wrong.dispatched = false;
    const attune::detail::VariantRegistration registration{{&wrong, 1}};
    GateJob job{.variant = std::string(v.name), .shapes = {shape()}, .threads = 2};
    job.user = {.module = EVERY_OTHER_MODULE,
                .captures = {{"slopes", npy(folder, "slopes.npy", {0.5f, 0.25f, 0.125f, 0.0625f})}}};
    const auto silent = [](const std::string &) {};
    const Judgement of_right = judge_candidate(job, silent);
    INFO(of_right.reason);
    CHECK(of_right.right);
    CHECK(of_right.error_ratio > 0);
    job.variant = "alibi_attention_wrong";
    const Judgement of_wrong = judge_candidate(job, silent);
    CHECK_FALSE(of_wrong.right);
    CHECK(of_wrong.reason.find("out: ") != std::string::npos);
}

TEST_CASE("user case: captures that are not given are made up, as large as calls read them", "[tune]") {
    const TemporaryFolder folder;
    bench::Shape small = shape(), large = shape();
    small.h = small.kv = 2, large.h = 6, large.k = 300;
    std::vector<std::string> made_up;
    const auto extents = [&](const Captures &captures, const std::string &name) {
        const attune::program::Array array =
            attune::program::NpyFile(name, captures.at(name), attune::program::ElementKind::floats).read();
        return attune::program::text_of(array.shape);
    };
    const Captures alibi = complete_captures("user_alibi_attention_backward", {}, {small, large}, folder / "made", made_up);
    CHECK(extents(alibi, "slopes") == "(6,)");
    CHECK(made_up == std::vector<std::string>{"slopes (6,)"});
    CHECK(defect(*make_user_case("user_alibi_attention_backward", large, alibi), {}) == "");
    made_up.clear();
    const Captures everything =
        complete_captures("user_everything", {{"cap", "2"}, {"reach", "5"}}, {shape()}, folder / "made", made_up);
    CHECK(extents(everything, "table") == "(4, 11)");
    CHECK(extents(everything, "temperature") == "(2, 4)");
    CHECK(everything.at("cap") == "2");
    CHECK(made_up.size() == 5);
    attune::Context context;
    CHECK(make_user_case("user_everything", shape(), everything)->call(context, "").message() == "");
    // A given capture is kept, even where it is too small.
    made_up.clear();
    const Captures given = {{"slopes", npy(folder, "two.npy", {0.5f, 0.25f})}};
    CHECK(complete_captures("user_alibi_attention", given, {large}, folder / "made", made_up) == given);
    CHECK(made_up.empty());
    CHECK(captures_key("user_alibi_attention", given) != captures_key("user_alibi_attention", alibi));
}
