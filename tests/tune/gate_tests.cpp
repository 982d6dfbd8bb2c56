// SPDX-License-Identifier: MIT
// The gate of the tuner (tools/tune/gate.h) refuses wrong candidates, each with the right reason, and accepts the kernel
// without a defect; and the worker's answers for candidates that die, or that it cannot load.
#include "tests/support/catch.h"
#include "tests/tune/temporary.h"
#include "tests/tune/wrong_candidates.h"
#include "tools/tune/worker.h"
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using Json = nlohmann::ordered_json;

Json candidate(const std::string &symbol) {
    return {
        {"id", symbol}, {"object", ATTUNE_WRONG_CANDIDATES_FILE}, {"symbol", symbol}, {"parameters", "kv_block=16 tile_q=8"}};
}
Json job(const std::vector<std::string> &symbols) {
    Json candidates = Json::array();
    for (const std::string &symbol : symbols) candidates.push_back(candidate(symbol));
    return {
        {"mode", "check"},
        {"variant",
         {{"name", "sdpa_f32_dany_generic_prefill_long"},
          {"op", "sdpa"},
          {"dtype", "f32"},
          {"head_dim", 0},
          {"target", "generic"},
          {"schedule", "prefill"},
          {"shape_class", "long"},
          {"kind", "plain"}}},
        {"candidates", candidates},
        {"shapes",
         {{{"op", "sdpa"}, {"dtype", "f32"}, {"b", 1}, {"h", 4}, {"kv", 4}, {"q", 128}, {"k", 128}, {"d", 32}, {"dv", 32}}}},
        {"threads", 2},
        {"seed", 1}};
}

struct Answers {
    std::vector<Json> lines;
    int status = 0;  // status of wait()
    bool died() const {
        return !WIFEXITED(status) || (WEXITSTATUS(status) != 0 && !lines.empty() && !lines.back().contains("error"));
    }
    // The last line about a candidate.
    Json last(const std::string &id) const {
        Json found;
        for (const Json &line : lines)
            if (line.value("id", "") == id) found = line;
        return found;
    }
};

// A worker in a process of its own, as the tuner starts it; stopped after `limit` seconds.
Answers work(const Json &of, unsigned limit = 100) {
    int pipes[2];
    REQUIRE(pipe(pipes) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        close(pipes[0]);
        for (const int signal : {SIGSEGV, SIGBUS, SIGABRT, SIGFPE})
            std::signal(signal, SIG_DFL);  // Catch2 has handlers of its own
        alarm(limit);
        std::istringstream in(of.dump());
        struct ToPipe : std::stringbuf {
            int to;
            int sync() override {
                const std::string text = str();
                const bool written = write(to, text.data(), text.size()) == static_cast<ssize_t>(text.size());
                str("");
                return written ? 0 : -1;
            }
        } buffer;
        buffer.to = pipes[1];
        std::ostream stream(&buffer);
        _exit(attune::tune::run_worker(in, stream));
    }
    close(pipes[1]);
    std::string text;
    char part[4096];
    for (ssize_t n; (n = read(pipes[0], part, sizeof part)) > 0;) text.append(part, static_cast<std::size_t>(n));
    close(pipes[0]);
    Answers answers;
    REQUIRE(waitpid(child, &answers.status, 0) == child);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) answers.lines.push_back(Json::parse(line));
    return answers;
}

const std::vector<std::pair<std::string, std::string>> &candidates() {
    static const std::vector<std::pair<std::string, std::string>> all = {
#define ATTUNE_PAIR(name, words) {#name, words},
        ATTUNE_WRONG_CANDIDATES(ATTUNE_PAIR)};
    return all;
}

}  // namespace

TEST_CASE("gate: a right candidate passes, and says how large its error is", "[tune]") {
    const Answers a = work(job({"right"}));
    INFO(a.last("right").dump());
    CHECK(a.last("right").value("right", false));
    CHECK(a.last("right").value("error_ratio", 0.0) > 0);
    CHECK(a.last("right").value("error_ratio", 2.0) <= 1);
    CHECK(a.status == 0);
}

TEST_CASE("gate: wrong candidates are refused, each for its reason", "[tune]") {
    int refused = 0;
    for (const auto &[name, words] : candidates()) {
        if (name == "right" || name == "hang") continue;
        const Answers a = work(job({name}));
        const Json last = a.last(name);
        INFO(name << ": " << last.dump() << " status " << a.status);
        CHECK_FALSE(last.value("right", false));
        if (words.empty()) {
            CHECK(a.died());
            CHECK(last.value("checking", "") != "");  // the check in which it died
        } else {
            CHECK(a.status == 0);
            CHECK(last.value("reason", "").find(words) != std::string::npos);
        }
        refused++;
    }
    CHECK(refused >= 20);
}

TEST_CASE("worker: the others go on where a candidate cannot be loaded", "[tune]") {
    Json of = job({"right", "absent"});
    of["candidates"].push_back(candidate("right"));
    of["candidates"][2]["id"] = "gone", of["candidates"][2]["object"] = "/nowhere/gone.so";
    const Answers a = work(of);
    CHECK(a.status == 0);
    CHECK(a.last("right").value("right", false));
    CHECK(a.last("absent").value("reason", "").find("lacks its symbol") != std::string::npos);
    CHECK(a.last("gone").value("reason", "").find("cannot be loaded") != std::string::npos);
}

TEST_CASE("worker: a candidate that hangs leaves its check behind", "[tune]") {
    const Answers a = work(job({"hang"}), 1);
    CHECK(WIFSIGNALED(a.status));
    CHECK(a.last("hang").value("checking", "") != "");
}

TEST_CASE("worker: what is expected at the tuning shape is kept, and a spoiled file is written again", "[tune]") {
    const attune::tune::TemporaryFolder folder;
    Json of = job({"right"});
    of["expected"] = folder / "";
    const auto files = [&] {
        std::vector<std::filesystem::path> all;
        for (const auto &entry : std::filesystem::directory_iterator(folder / "")) all.push_back(entry.path());
        return all;
    };
    CHECK(work(of).last("right").value("right", false));
    REQUIRE(files().size() == 1);
    const auto size = std::filesystem::file_size(files()[0]);
    std::filesystem::resize_file(files()[0], size / 2);
    CHECK(work(of).last("right").value("right", false));
    CHECK(std::filesystem::file_size(files()[0]) == size);
    CHECK(work(of).last("right").value("right", false));
}

TEST_CASE("worker: awkward calls are checked once, whatever the number of shapes", "[tune]") {
    const auto checks = [](const Answers &a) {
        std::pair<int, int> counts;  // at awkward calls, at tuning shapes
        for (const Json &line : a.lines)
            if (line.contains("checking"))
                (line["checking"].get<std::string>().find("tuning shape") == 0 ? counts.second : counts.first)++;
        return counts;
    };
    Json of = job({"right"});
    const auto one = checks(work(of));
    CHECK(one.first > 10);
    CHECK(one.second == 1);
    of["shapes"].push_back(of["shapes"][0]), of["shapes"][1]["k"] = 64;
    CHECK(checks(work(of)) == std::pair(one.first, 2));
}

TEST_CASE("worker: candidates are timed in turns", "[tune]") {
    Json of = job({"right", "coarse_weights", "absent"});
    of["shape"] = of["shapes"][0], of.erase("shapes"), of["mode"] = "time", of["rounds"] = 3, of["sample_seconds"] = 0.001;
    for (const bool cold : {false, true}) {
        of["cold"] = cold, of["peak"] = cold;
        const Answers a = work(of);
        CHECK(a.status == 0);
        for (const char *id : {"right", "coarse_weights"}) {
            std::vector<double> seconds;
            for (const Json &line : a.lines)
                if (line.value("id", "") == id && line.contains("seconds"))
                    seconds = line["seconds"].get<std::vector<double>>();
            CHECK(seconds.size() == 3);
            for (const double s : seconds) CHECK(s > 0);
        }
        CHECK(a.last("absent").contains("reason"));
        int peaks = 0;
        for (const Json &line : a.lines)
            if (line.contains("peak")) {
                CHECK(line["peak"].get<double>() > 1e9);
                CHECK(line["work"].get<double>() == 4.0 * 4 * 128 * 128 * 32);
                CHECK(line["unit"] == "multiply-add peak");
                peaks++;
            }
        CHECK(peaks == (cold ? 1 : 0));
        REQUIRE(!a.lines.empty());
        CHECK(a.lines.back().contains("foreign_load"));
    }
}

TEST_CASE("worker: a job that is wrong", "[tune]") {
    const auto error_of = [](const Json &of) {
        const Answers a = work(of);
        CHECK(WEXITSTATUS(a.status) == 1);
        return a.lines.empty() ? std::string() : a.lines.back().value("error", "");
    };
    Json of = job({"right"});
    of["mode"] = "guess";
    CHECK(error_of(of) == "mode: expected check or time, is \"guess\"");
    of = job({"right"}), of["shapes"][0]["q"] = "many";
    CHECK(error_of(of) == "shape: q cannot be 'many'");
    of = job({"right"}), of["shapes"][0]["heads"] = 3;
    CHECK(error_of(of) == "shape: no column is called 'heads'");
    of = job({"right"}), of.erase("shapes");
    CHECK(error_of(of) == "shapes: none given");
    of = job({"right"}), of.erase("variant");
    CHECK(error_of(of).find("variant") != std::string::npos);
    of = job({"right"}), of["variant"]["dtype"] = "i8";
    CHECK(error_of(of) == "dtype: expected f32, f64, bf16 or f16, is \"i8\"");
}
