// SPDX-License-Identifier: MIT
// Report of a tuned cell: parameters, gain and provenance agree, wherever the search began.
#include "tests/support/catch.h"
#include "tools/tune/report.h"

using namespace attune::tune;

namespace {

const Parameters shipped{{"kv_block", 64}, {"fetch", 0}, {"tile", 8}}, others{{"kv_block", 32}, {"fetch", 0}, {"tile", 4}},
    best{{"kv_block", 128}, {"fetch", 1}, {"tile", 8}};

bool contains(const std::string &text, const std::string &part) { return text.find(part) != std::string::npos; }

// Report of a search from other parameters that found `best`, 1.3 times as fast as these.
CellReport from_others(std::optional<Gain> over_in_use) {
    CellReport report{{}, {}, shipped, "generic", over_in_use};
    report.cell.variant = "sdpa_f32_d64_made_up_prefill_long";
    report.result.baseline = others, report.result.chosen = best, report.result.gain = Gain{1.3, 1.28, 1.32, 6};
    report.result.baseline_seconds = 1.3, report.result.chosen_seconds = 1;
    report.result.trials = {{best, "timed", "", 1.3, 1, 0.5}, {others, "timed", "", 1, 1.3, 0.5}};
    report.result.finalists = {{best, *report.result.gain, 0.5}};
    return report;
}

}  // namespace

TEST_CASE("report: a gain over the parameters that a search began from replaces nothing by itself", "[tune]") {
    for (const std::optional<Gain> &over : {std::optional<Gain>(), std::optional(Gain{1.005, 0.99, 1.02, 6})}) {
        const CellReport report = from_others(over);
        CHECK_FALSE(report.gain());
        CHECK(report.now() == shipped);
        const std::string table = table_of({report});
        INFO(table);
        CHECK(contains(table, " unchanged "));
        CHECK_FALSE(contains(table, "1.300"));
        CHECK_FALSE(contains(how_found(report), "1.300"));
        if (over) CHECK(contains(table, text_of(best) + " is 1.005 (0.990 to 1.020)"));
    }
}

TEST_CASE("report: what replaces the parameters in use is written with its gain over them", "[tune]") {
    const CellReport report = from_others(Gain{1.125, 1.1, 1.15, 6});
    REQUIRE(report.gain());
    CHECK(report.now() == best);
    CHECK(report.seconds_in_use() == Approx(1.125));
    CHECK(how_found(report) == "best of 2 candidates from the parameters of generic, 1.125 (1.100 to 1.150) of the speed of "
                               "fetch=0 kv_block=64 tile=8");
    const std::string table = table_of({report});
    CHECK(contains(table, text_of(best) + "  1.125 (1.100 to 1.150)"));
    CHECK_FALSE(contains(table, "unchanged"));
}

TEST_CASE("report: figures of provenance are those of the first shape, with a share where a peak is known", "[tune]") {
    CellReport report = from_others(Gain{1.125, 1.1, 1.15, 6});
    const std::string shape = WeightedShape{}.shape.label();
    report.result.shapes = {WeightedShape{}};
    report.result.chosen_seconds = 0.00123456;
    CHECK(figures_of(report).dump() == "{\"us\":1235.0,\"shape\":\"" + shape + "\"}");
    report.result.limit = {1e6, 2e9, "multiply-add peak"};
    CHECK(figures_of(report).dump() == "{\"us\":1235.0,\"percent_of_peak\":40.5,\"shape\":\"" + shape + "\"}");
    report.result.limit.peak = 1e6;  // a share above 1
    CHECK_FALSE(figures_of(report).contains("percent_of_peak"));
}

TEST_CASE("report: parameters of another target that nothing beats may replace those in use", "[tune]") {
    CellReport report = from_others(Gain{1.125, 1.1, 1.15, 6});
    report.result.chosen = others, report.result.gain.reset(), report.result.finalists.clear();
    CHECK(report.now() == others);
    CHECK(contains(table_of({report}), text_of(others) + "  1.125"));
    report.over_in_use.reset(), report.result.chosen = shipped, report.result.gain = Gain{1.3, 1.2, 1.4, 6};
    CHECK_FALSE(report.gain());  // the search returned to the parameters in use
    CHECK(contains(table_of({report}), "is what is in use"));
}

TEST_CASE("report: what was not tried is not said to be slower", "[tune]") {
    CellReport report{{}, {}, shipped, "", {}};
    report.result.baseline = report.result.chosen = shipped;
    CHECK(contains(table_of({report}), "unchanged: no other candidate was timed"));
    report.result.trials = {{shipped, "timed", "", 1, 1, 0.5}, {best, "not measured", "busy"}};
    CHECK(contains(table_of({report}), "unchanged: no other candidate was timed"));
    report.result.trials.push_back({others, "timed", "", 0.5, 2, 0.5});
    CHECK(contains(table_of({report}), "unchanged: no candidate came within 3 %"));
    report.result.loudest = 0.5, report.result.shapes_left_out = "3 of 4 shapes", report.result.inert = {"fetch"};
    for (const char *line : {": other programs took up to 0.50 cores", ": not timed: 3 of 4 shapes", ": fetch never changed"})
        CHECK(contains(table_of({report}), report.cell.variant + line));
    report.result.not_tried = "the time was up: the parameters in use were not checked in 3 s";
    CHECK(contains(table_of({report}), "unchanged: the time was up"));
}

TEST_CASE("report: a share above one is no share", "[tune]") {
    const PeakLimit products{2e9, 1e9, "multiply-add peak"}, reads{2e9, 1e9, "plain read"}, unknown{2e9, 0, ""};
    CHECK(products.share_text(2.5) == "0.80");
    CHECK(products.share_text(1.6) == "not measured (1.25: the machine was busy)");
    CHECK(reads.share_text(1.6) == "1.25, from a cache");
    CHECK(unknown.share_text(1.6).empty());
    CHECK(measured(0.9, 0.8, 2, 0.05) == Measured::yes);
    CHECK(measured(1.2, 0.8, 0.01, 0.05) == Measured::too_quick);
    CHECK(measured(1.2, 0.8, 0.06, 0.05) == Measured::busy);
    CHECK(measured(1.2, 1.1, 0.01, 0.05) == Measured::busy);
}
