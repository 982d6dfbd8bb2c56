// SPDX-License-Identifier: MIT
// Processes end at their limit, with all their children; the kinds of ends are told apart.
#include "tests/support/catch.h"
#include "tools/tune/subprocess.h"
#include <chrono>
#include <fstream>
#include <string>
#include <sys/types.h>
#include <thread>

using namespace attune::tune;

namespace {

// Whether a process exists; a zombie does not count.
bool runs(pid_t process) {
    std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
    std::string number, name, state;
    return (stat >> number >> name >> state) && state != "Z" && state != "X";
}

}  // namespace

TEST_CASE("tune: a process gives its output and takes its input", "[tune]") {
    const std::string long_text(300000, 'x');  // more than a pipe holds, both ways
    const ProcessResult result = run({{"cat"}, long_text, 20});
    CHECK(result.ok());
    CHECK(result.output == long_text);
    CHECK(run({{"sh", "-c", "echo out; echo err >&2"}, "", 20}).errors == "err\n");
    CHECK(run({{"true"}, long_text, 20}).ok());  // a process that reads nothing
}

TEST_CASE("tune: how a process ended", "[tune]") {
    CHECK(run({{"sh", "-c", "exit 3"}, "", 20}).failure(20) == "exit code 3");
    CHECK(run({{"sh", "-c", "kill -SEGV $$"}, "", 20}).failure(20) == "crashed by signal 11 (Segmentation fault)");
    CHECK(run({{"no-such-program-here"}, "", 20}).failure(20) == "exit code 127");
}

TEST_CASE("tune: a process ends at its limit, and so do its children", "[tune]") {
    const ProcessResult result = run({{"sh", "-c", "sleep 1000 & echo $!; wait"}, "", 0.3});
    CHECK(result.timed_out);
    CHECK(result.failure(1) == "ran longer than 1 s");
    const pid_t child = static_cast<pid_t>(std::stol(result.output));
    for (int n = 0; n < 100 && runs(child); n++) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(runs(child));
}

TEST_CASE("tune: processes run side by side and answer in their order", "[tune]") {
    std::vector<Process> all;
    for (int n = 0; n < 7; n++)
        all.push_back({{"sh", "-c", "sleep 0." + std::to_string(7 - n) + "; echo " + std::to_string(n)}, "", 20});
    const std::vector<ProcessResult> results = run_all(all, 3);
    for (std::size_t n = 0; n < 7; n++) CHECK(results[n].output == std::to_string(n) + "\n");
}
