// SPDX-License-Identifier: MIT
// The search for the parameters of one variant, on a simulated machine (fake_worker.py): trials, records and reports where the
// machine is busy, the shapes are many, or the time is short.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/tune/cell_tuner.h"
#include "tools/tune/lengths.h"
#include "tools/tune/report.h"
#include <cmath>
#include <stdlib.h>

namespace attune::tune {
namespace {
using Clock = std::chrono::steady_clock;

bench::Shape softmax_shape(std::int64_t keys) {
    bench::Shape s;
    s.op = "masked_softmax", s.q = 64, s.k = keys;
    return s;
}

// A cell of masked_softmax whose kernels are made and timed by scripts of this folder.
class FakeCell {
public:
    FakeCell()
        : space_(Space::read(folder_.write("space.json", six_points), "masked_softmax", "rows", "",
                             {16, 32, 4, 4, 32 << 10, 1 << 20, 0, false})) {
        for (const char *script : {"fake_worker.py", "fake_generator.sh"}) {
            std::filesystem::copy_file(std::string(ATTUNE_TUNE_TESTS) + "/" + script, folder_ / script);
            std::filesystem::permissions(folder_ / script, std::filesystem::perms::owner_all);
        }
        folder_.write("fake.cpp", "extern \"C\" int attune_candidate_argv(void **) { return 0; }\n");
        REQUIRE(std::system(("c++ -c -fPIC -o " + folder_ / "fake.o" + " " + folder_ / "fake.cpp").c_str()) == 0);
        machine("{}");
        setenv("ATTUNE_FAKE_MACHINE", (folder_ / "machine.json").c_str(), 1);
        cell_.variant = "masked_softmax_f32_made_up_rows", cell_.op = cell_.like = "masked_softmax", cell_.dtype = "f32";
        cell_.target = "generic", cell_.schedule = "rows";
        cell_.shapes = {{softmax_shape(100), 1}};
    }

    void machine(const std::string &json) const { folder_.write("machine.json", json); }

    CellResult tune(double seconds) {
        GeneratorProgram program{.program = folder_ / "fake_generator.sh",
                                 .generator = "masked_softmax",
                                 .parameters = {},
                                 .target = "x86-64-linux",
                                 .dtype = "float32",
                                 .algorithm = "",
                                 .halide = ""};
        const CandidateMaker maker(cell_, program, folder_ / "kernels");
        const Workers workers(cell_, folder_ / "fake_worker.py", folder_ / "", 1);
        const std::vector<Record> known = records();
        RecordLog log(folder_ / "records.jsonl");
        RecordKey key;
        key.op = cell_.op, key.dtype = "f32", key.schedule = "rows";
        Limits limits;
        limits.jobs = 2;
        const Setting setting{.cell = cell_,
                              .shapes = cell_.shapes,
                              .space = space_,
                              .maker = maker,
                              .workers = workers,
                              .key = key,
                              .captures = "",
                              .known = known,
                              .log = log,
                              .strategy = "descent",
                              .seeds = {},
                              .seed = 1,
                              .limits = limits,
                              .progress = {}};
        const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
        return tune_cell(setting, in_use, end);
    }
    std::vector<Record> records() const { return read_records(folder_ / "records.jsonl"); }
    std::size_t records_of(const std::string &verdict) const {
        const auto all = records();
        return std::size_t(std::count_if(all.begin(), all.end(), [&](const Record &r) { return r.verdict == verdict; }));
    }
    std::string table(const CellResult &result) const { return table_of({{cell_, result, in_use, "", {}}}); }

    const Parameters in_use{{"block", 64}, {"task_rows", 16}};
    Cell cell_;
    TemporaryFolder folder_;

private:
    static constexpr const char *six_points = R"({"schema": 1, "op": "masked_softmax", "spaces": [{"schedules": ["rows"],
      "parameters": {"block": {"values": [16, 32, 64], "stage": 1}, "task_rows": {"values": [4, 16], "stage": 1}}}]})";
    Space space_;
};

std::size_t count_of(const CellResult &result, const std::string &verdict) {
    return std::size_t(
        std::count_if(result.trials.begin(), result.trials.end(), [&](const Trial &t) { return t.verdict == verdict; }));
}

}  // namespace

TEST_CASE("tuning: a search finds the quickest, and is believed by its records", "[tune]") {
    FakeCell cell;
    const CellResult result = cell.tune(300);
    INFO(cell.table(result));
    CHECK(result.complete);
    CHECK(result.chosen == Parameters{{"block", 16}, {"task_rows", 4}});
    REQUIRE(result.gain);
    CHECK(result.gain->value == Approx(1.25 / (16 / 64.0 + 4 / 64.0)));
    const std::size_t timed = cell.records_of("timed");
    CHECK(timed > 4);
    const CellResult again = cell.tune(300);  // all results come from the records
    CHECK(again.chosen == result.chosen);
    CHECK(cell.records_of("timed") == timed);
}

// The parameters in use take 1.25 units, all others less: where a machine reports a share of 1.2 / units of its peak, they
// exceed the peak.
TEST_CASE("tuning: what is quicker than the peak of a busy machine is not measured, and tried again", "[tune]") {
    FakeCell cell;
    cell.machine(R"({"products": 1.2, "foreign_load": 0.7})");
    const CellResult busy = cell.tune(300);
    INFO(cell.table(busy));
    CHECK(count_of(busy, "not measured") > 2);
    CHECK(count_of(busy, "rejected") == 0);
    CHECK(cell.records_of("rejected") == 0);
    CHECK(cell.table(busy).find(" not measured") != std::string::npos);
    cell.machine(R"({"products": 0.2})");
    const CellResult quiet = cell.tune(300);
    CHECK(count_of(quiet, "not measured") == 0);
    CHECK(quiet.gain);
}

TEST_CASE("tuning: what is quicker than a quiet machine is rejected, unless the parameters in use are", "[tune]") {
    FakeCell cell;
    cell.machine(R"({"products": 1.2, "foreign_load": 0.01})");
    const CellResult result = cell.tune(300);
    CHECK(count_of(result, "rejected") > 2);
    CHECK(count_of(result, "rejected") == cell.records_of("rejected"));
    FakeCell other;
    other.machine(R"({"products": 1.3, "foreign_load": 0.01})");  // 1.04 for parameters known to be right
    CHECK(count_of(other.tune(300), "rejected") == 0);
}

TEST_CASE("tuning: a verdict of earlier versions on a busy machine is none", "[tune]") {
    FakeCell cell;
    const std::size_t timed = (cell.tune(300), cell.records_of("timed"));
    std::string lines;
    for (Record record : cell.records()) {
        record.verdict = "rejected", record.ratios.clear();
        record.reason = "quicker than this machine can compute it: a part of the work is left out";
        lines += json_of(record).dump() + "\n";
    }
    cell.folder_.write("records.jsonl", lines);
    const CellResult result = cell.tune(300);
    CHECK(count_of(result, "rejected") == 0);
    CHECK(cell.records_of("timed") == timed);
}

TEST_CASE("tuning: where there is no time nothing is said of candidates", "[tune]") {
    FakeCell cell;
    cell.machine(R"({"sleep": 0.4})");
    const CellResult result = cell.tune(1.5);  // a decision takes six processes
    const std::string table = cell.table(result);
    INFO(table);
    CHECK(result.trials.empty());
    CHECK(table.find("unchanged: the time was up") != std::string::npos);
    CHECK(table.find("3 %") == std::string::npos);
    CHECK(cell.records().empty());
}

TEST_CASE("tuning: a compiler that the end of the time cuts short is no verdict", "[tune]") {
    FakeCell cell;
    cell.folder_.write("slow", " block=16 \n block=32 \n");
    const CellResult result = cell.tune(8);
    INFO(cell.table(result));
    CHECK(cell.records_of("timeout") == 0);
    CHECK(count_of(result, "timeout") == 0);
}

TEST_CASE("tuning: of many shapes those of most weight are timed where time is short", "[tune]") {
    FakeCell cell;
    cell.machine(R"({"sleep": 0.1})");
    cell.cell_.shapes.clear();
    for (int n = 1; n <= 60; n++) cell.cell_.shapes.push_back({softmax_shape(n), n / 1830.0});
    const CellResult result = cell.tune(20);
    INFO(cell.table(result) << result.shapes_left_out);
    CHECK(result.shapes.size() < 60);
    REQUIRE(!result.shapes.empty());
    CHECK(result.shapes.front().shape.k == 60);
    CHECK(result.shapes_left_out.find("of 60 shapes, ") != std::string::npos);
    CHECK(!result.trials.empty());
    CHECK(cell.table(result).find("not timed: " + result.shapes_left_out) != std::string::npos);
}

TEST_CASE("tuning: lengths of a decoding loop are tuned for as one for a factor of two", "[tune]") {
    std::vector<WeightedShape> shapes;
    bench::Shape prompt, step;
    prompt.h = step.h = 8, prompt.kv = step.kv = 2, prompt.d = prompt.dv = step.d = step.dv = 64;
    prompt.q = prompt.k = 37, prompt.causal = true;
    shapes.push_back({prompt, 0.25});
    for (int k = 38; k < 338; k++) step.k = k, shapes.push_back({step, 0.75 / 300});
    const std::vector<WeightedShape> grouped = group_lengths(shapes);
    REQUIRE(grouped.size() == 5);  // the prompt; up to 63, 127, 255 and 337 keys
    CHECK(grouped[0].shape.label() == prompt.label());
    CHECK(grouped[0].weight == Approx(0.25));
    double weight = 0;
    for (const WeightedShape &s : grouped) weight += s.weight;
    CHECK(weight == Approx(1));
    CHECK(std::abs(grouped[3].shape.k - 191.5) < 1);  // the median of 128 to 255
    CHECK(grouped[3].weight == Approx(0.75 * 128 / 300));
    for (WeightedShape &s : shapes) s.weight = s.shape.k == 130 ? 1000 : 1;
    CHECK(group_lengths(shapes)[3].shape.k == 130);  // the length with most of the time
    shapes.resize(most_single_shapes);
    CHECK(group_lengths(shapes).size() == most_single_shapes);
}

}  // namespace attune::tune
