// SPDX-License-Identifier: MIT
// Records of measurements: a written record is read again, whatever happened to its writer.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/records.h"
#include <sys/wait.h>
#include <unistd.h>

namespace attune::tune {
namespace {

Record example(int kv_block = 64) {
    Record record;
    record.key = {"zen4",
                  "AMD EPYC, \"2\" cores",
                  "073f35a52133",
                  "21.0.0",
                  "sdpa",
                  "f32",
                  "prefill",
                  "long",
                  "plain",
                  64,
                  2,
                  "causal",
                  "1",
                  10,
                  11,
                  "1x8",
                  "kv_block=64",
                  true};
    record.parameters = {{"kv_block", kv_block}, {"tile_q", 16}};
    record.verdict = "timed";
    record.ratios = {0.1, 1.0 / 3, 0.97};
    record.seconds = 1.25e-3;
    record.error_ratio = 0.5;
    record.object = "ab12";
    record.foreign_load = 0.015625;
    record.when = "2026-11-22T03:04:05Z";
    return record;
}

std::string text_of_file(const std::string &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

void check_same(const Record &a, const Record &b) {
    CHECK(a.key == b.key);
    CHECK(json_of(a) == json_of(b));
}

TEST_CASE("a record is read as it was written", "[tune]") {
    const TemporaryFolder folder;
    const std::string file = folder / "records.jsonl";
    CHECK(read_records(file).empty());
    Record rejected = example(128);
    rejected.verdict = "rejected", rejected.reason = "queries 65 keys 129 causal: out: element 3\nis nan",
    rejected.ratios.clear();
    {
        RecordLog log(file);
        log.append(example()), log.append(rejected);
    }
    RecordLog(file).append(example(256));
    const auto records = read_records(file);
    REQUIRE(records.size() == 3);
    check_same(records[0], example());
    check_same(records[1], rejected);
    check_same(records[2], example(256));
}

TEST_CASE("a record cut off at any byte is left out, and those after it are read", "[tune]") {
    const TemporaryFolder folder;
    const std::string line = json_of(example()).dump(), file = folder / "records.jsonl";
    for (std::size_t size = 1; size < line.size(); size++) {
        CAPTURE(size);
        folder.write("records.jsonl", line + "\n" + line.substr(0, size));
        CHECK(read_records(file).size() == 1);
    }
    for (const std::size_t size : {std::size_t(1), line.size() / 2, line.size() - 1, line.size()}) {
        CAPTURE(size);
        folder.write("records.jsonl", line + "\n" + line.substr(0, size));
        RecordLog(file).append(example(128));
        const auto records = read_records(file);
        REQUIRE(records.size() == (size == line.size() ? 3 : 2));
        check_same(records.back(), example(128));
    }
}

TEST_CASE("what is no record is refused with its line", "[tune]") {
    const TemporaryFolder folder;
    const std::string good = json_of(example()).dump();
    auto message = [&](const std::string &line) -> std::string {
        try {
            read_records(folder.write("records.jsonl", good + "\n\n" + line + "\n" + good + "\n"));
        } catch (const program::InputError &error) {
            return error.what();
        }
        return "";
    };
    auto changed = [](auto change) {
        nlohmann::ordered_json line = json_of(example());
        change(line);
        return line.dump();
    };
    CHECK_THAT(message("{]"), Catch::Matchers::EndsWith("line 3: is not JSON"));
    CHECK_THAT(message(good + good), Catch::Matchers::EndsWith("line 3: is not JSON"));
    CHECK_THAT(message("1" + std::string(400, '0')),
               attune_test::contains_text("line 3: ") && attune_test::contains_text("overflow"));
    CHECK_THAT(message("[]"), Catch::Matchers::EndsWith("line 3: is no record: it has no \"key\""));
    CHECK_THAT(message(changed([](auto &x) { x.erase("ratios"); })), Catch::Matchers::EndsWith("line 3: has no \"ratios\""));
    CHECK_THAT(message(changed([](auto &x) { x["key"]["head_dim"] = "64"; })),
               Catch::Matchers::EndsWith("line 3: \"head_dim\" is \"64\""));
    CHECK_THAT(message(changed([](auto &x) { x["verdict"] = "won"; })),
               Catch::Matchers::EndsWith("line 3: \"verdict\" is \"won\""));
    CHECK_THAT(message(changed([](auto &x) { x["key"]["phase"] = 1; })),
               Catch::Matchers::EndsWith("line 3: \"key\" has fields that are not known here"));
}

TEST_CASE("processes that append to one file lose no record", "[tune]") {
    constexpr int writers = 4, each = 25;
    const TemporaryFolder folder;
    const std::string file = folder / "records.jsonl";
    std::vector<pid_t> children;
    for (int writer = 0; writer < writers; writer++) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            try {
                RecordLog log(file);
                for (int n = 0; n < each; n++) log.append(example(writer * each + n));
            } catch (...) {
                _exit(1);
            }
            _exit(0);
        }
        children.push_back(child);
    }
    for (const pid_t child : children) {
        int status = 1;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(status == 0);
    }
    std::vector<int> times(writers * each);
    for (const Record &record : read_records(file)) times.at(std::size_t(record.parameters.at("kv_block")))++;
    CHECK(times == std::vector<int>(writers * each, 1));
}

TEST_CASE("a writer that is killed loses at most the record in flight", "[tune]") {
    const TemporaryFolder folder;
    const std::string file = folder / "records.jsonl";
    int told[2];
    REQUIRE(pipe(told) == 0);
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        RecordLog log(file);
        for (char n = 0;; n++) {
            log.append(example(n));
            if (write(told[1], &n, 1) != 1) _exit(1);
        }
    }
    char last = 0;
    while (last < 20) REQUIRE(read(told[0], &last, 1) == 1);
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    close(told[0]), close(told[1]);
    const auto records = read_records(file);
    CHECK(records.size() >= 21);
    RecordLog(file).append(example(1000));
    CHECK(read_records(file).size() == records.size() + 1);
    CHECK_THAT(text_of_file(file), Catch::Matchers::EndsWith("\n"));
}

TEST_CASE("a log that cannot be written says so", "[tune]") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(RecordLog(folder / "none/records.jsonl"), program::MachineError);
    RecordLog full("/dev/full");
    CHECK_THROWS_AS(full.append(example()), program::MachineError);
}

}  // namespace
}  // namespace attune::tune
