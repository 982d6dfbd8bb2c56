// SPDX-License-Identifier: MIT
// Spaces: written files, and those of this tree.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/space.h"
#include <nlohmann/json.hpp>
#include <set>

namespace attune::tune {
namespace {
using nlohmann::json;

constexpr Facts facts{16, 32, 4, 4, 32 << 10, 1 << 20, 64, false};

const char *const example = R"({"schema": 1, "op": "dot", "spaces": [
  {"schedules": ["wide"], "parameters": {"a": {"values": [1], "stage": 1}}},
  {"schedules": ["tiles"],
   "parameters": {"rows": {"values": [4, "lanes / 2", 2, 64], "stage": 1},
             "kv_block": {"values": {"long": [8, 16, 32], "other": [8]}, "stage": 2},
             "block": {"values": [0, 4], "stage": 2, "default": 0}},
   "constraints": [{"multiple": "kv_block", "of": "rows"},
                   {"for": "sums", "need": "rows * kv_block / 8", "of": "registers"},
                   {"require": "block == 0 || rows > 2", "else": "{rows + 0.5} rows are too few for {block}"}]}]})";

Space space_of(const std::string &text, const std::string &schedule = "tiles", const std::string &shape_class = "long") {
    const TemporaryFolder folder;
    return Space::read(folder.write("space.json", text), "dot", schedule, shape_class, facts);
}

std::string why_no_space(const std::string &text) {
    try {
        space_of(text);
    } catch (const program::InputError &error) {
        return error.what();
    }
    return "";
}

std::string changed(const std::string &from, const std::string &to) {
    std::string text = example;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

TEST_CASE("a space has the legal points of its file and no others", "[tune]") {
    const Space space = space_of(example);
    REQUIRE(space.parameters().size() == 3);
    CHECK(space.parameters()[0].name == "rows");
    CHECK(space.parameters()[0].values == std::vector<int>{2, 4, 8});  // no kv_block is a multiple of 64
    CHECK(space.parameters()[1].values == std::vector<int>{8, 16, 32});
    CHECK(space.parameters()[1].stage == 2);
    CHECK(space.all().size() == 15);
    CHECK(space.all().front() == Parameters{{"rows", 2}, {"kv_block", 8}, {"block", 0}});
    CHECK(space.all().size() + space.illegal() == 4 * 3 * 2);
    for (const Parameters &parameters : space.all()) CHECK(space.why_not(parameters) == "");
    CHECK(space_of(example, "tiles", "short").parameters()[1].values == std::vector<int>{8});
    CHECK(space_of(example, "wide").all().size() == 1);
}

TEST_CASE("what parameters break is said in the words of the file", "[tune]") {
    const Space space = space_of(example);
    CHECK(space.why_not({{"rows", 8}, {"kv_block", 32}, {"block", 0}}) == "");
    CHECK(space.why_not({{"rows", 8}, {"kv_block", 32}}) == "");
    CHECK(space.why_not({{"rows", 8}, {"kv_block", 12}, {"block", 0}}) == "kv_block 12 is no multiple of rows 8");
    CHECK(space.why_not({{"rows", 16}, {"kv_block", 32}, {"block", 0}}) == "sums: 64 of 32 registers");
    CHECK(space.why_not({{"rows", 2}, {"kv_block", 32}, {"block", 4}}) == "2.5 rows are too few for 4");
    CHECK(space.why_not({{"rows", 1}, {"kv_block", 8}, {"block", 0}}) == "rows 1 is none of 2, 4, 8");
    CHECK(space.why_not({{"rows", 8}, {"block", 0}}) == "kv_block is missing");
    CHECK(space.why_not({{"rows", 8}, {"kv_block", 8}, {"tile", 1}}) == "tile is no parameter of tiles");
    CHECK(space.why_not({{"rows", 0}, {"kv_block", 8}}) == "kv_block 8 is no multiple of rows 0");
}

TEST_CASE("the nearest point is legal, and a legal one is its own", "[tune]") {
    const Space space = space_of(example);
    for (const Parameters &parameters : space.all()) CHECK(space.nearest(parameters) == parameters);
    CHECK(space.nearest({{"rows", 8}, {"kv_block", 32}}) == Parameters{{"rows", 8}, {"kv_block", 32}, {"block", 0}});
    CHECK(space.nearest({{"rows", 100}, {"kv_block", 40}, {"other", 3}}) ==
          Parameters{{"rows", 8}, {"kv_block", 32}, {"block", 0}});
    CHECK(space.nearest({{"rows", 1}, {"kv_block", 1}, {"block", 0}}) ==
          Parameters{{"rows", 2}, {"kv_block", 8}, {"block", 0}});
    CHECK(space.why_not(space.nearest({})) == "");
}

TEST_CASE("neighbours are one step away in a parameter, and legal", "[tune]") {
    const Space space = space_of(example);
    using List = std::vector<Parameters>;
    CHECK(space.neighbours({{"rows", 4}, {"kv_block", 16}, {"block", 0}}) ==
          List{{{"rows", 2}, {"kv_block", 16}, {"block", 0}},
               {{"rows", 8}, {"kv_block", 16}, {"block", 0}},
               {{"rows", 4}, {"kv_block", 8}, {"block", 0}},
               {{"rows", 4}, {"kv_block", 32}, {"block", 0}},
               {{"rows", 4}, {"kv_block", 16}, {"block", 4}}});
    // A step in rows changes block, too.
    const List list = space.neighbours({{"rows", 4}, {"kv_block", 16}, {"block", 4}});
    CHECK(std::count(list.begin(), list.end(), Parameters{{"rows", 2}, {"kv_block", 16}, {"block", 0}}) == 1);
    CHECK(space_of(example, "wide").neighbours({{"a", 1}}).empty());
}

TEST_CASE("what is wrong with the file of a space is said with its place", "[tune]") {
    auto says = [](const std::string &what) { return attune_test::contains_text(what); };
    CHECK_THAT(why_no_space("{"), says("parse error"));
    CHECK_THAT(why_no_space(changed("\"schema\": 1", "\"schema\": 2")), says("schema 2, expected 1"));
    CHECK_THAT(why_no_space(changed("\"dot\"", "\"dots\"")), says("\"op\" is dots, expected dot"));
    CHECK_THAT(why_no_space(changed("[\"tiles\"]", "[\"rows\"]")), says("has no space for the schedule tiles, class long"));
    CHECK_THAT(why_no_space(changed("[8]}, \"stage\": 2", "[8]}")), says("spaces[1].parameters.kv_block: has no \"stage\""));
    CHECK_THAT(why_no_space(changed("\"default\": 0", "\"defualt\": 0")),
               says("spaces[1].parameters.block: \"defualt\" is not known"));
    CHECK_THAT(why_no_space(changed("[4, \"lanes / 2\", 2, 64]", "[]")),
               says("spaces[1].parameters.rows.values: there are none"));
    CHECK_THAT(why_no_space(changed("\"lanes / 2\"", "\"lanes / 3\"")),
               says("parameters.rows: \"lanes / 3\" is no whole number here"));
    CHECK_THAT(why_no_space(changed("\"lanes / 2\"", "\"kv_block\"")), says("kv_block"));
    CHECK_THAT(why_no_space(changed("block == 0", "blok == 0")), says("blok"));
    CHECK_THAT(why_no_space(changed("{block}", "{block")), says("a brace is not closed"));
    CHECK_THAT(why_no_space(changed("\"need\": ", "\"needs\": ")), says("constraints[1]: \"for\" is not known"));
    CHECK_THAT(why_no_space(changed("block == 0 || rows > 2", "rows > 100")), says("tiles long: no point is legal"));
    CHECK_THAT(why_no_space(changed("\"rows\": {", "\"lanes\": {")), says("parameters.lanes: is the name of a fact"));
    CHECK_THROWS_AS(Space::read("no/such/file.json", "dot", "tiles", "", facts), program::InputError);
}

TEST_CASE("a space may be that of another op", "[tune]") {
    const TemporaryFolder folder;
    for (const char *op : {"dot", "cross"}) std::filesystem::create_directory(folder / op);
    folder.write("dot/space.json", example);
    const std::string file = folder.write("cross/space.json", R"({"schema": 1, "op": "cross", "like": "dot", "spaces": [
      {"schedules": ["wide"], "parameters": {"a": {"values": [1, 2], "stage": 1}}}]})");
    CHECK(Space::read(file, "cross", "wide", "", facts).all().size() == 2);
    CHECK(Space::read(file, "cross", "tiles", "long", facts).all().size() == 15);
}

json read_json(const std::filesystem::path &file) {
    std::ifstream in(file);
    return json::parse(in);
}

// Parameters of this tree were measured or derived for their target: a space that excludes them is wrong.
TEST_CASE("every record that is shipped is a legal point of its space", "[tune]") {
    const std::filesystem::path schedules = ATTUNE_SCHEDULES;
    const json targets = read_json(schedules / "targets.json").at("targets");
    std::size_t checked = 0;
    for (const auto &folder : std::filesystem::directory_iterator(schedules)) {
        if (!std::filesystem::exists(folder.path() / "tuned")) continue;
        const std::string op = folder.path().filename().string(), file = (folder.path() / "space.json").string();
        for (const auto &tuned : std::filesystem::directory_iterator(folder.path() / "tuned")) {
            const json parameters = read_json(tuned.path());
            const std::string target = parameters.at("target");
            if (!targets.contains(target)) {  // of "device_targets", which are not tuned here
                WARN(tuned.path().string() << ": parameters of a device, of which there is no space");
                continue;
            }
            for (const json &record : parameters.at("records")) {
                const std::string schedule = record.at("schedule"), shape_class = record.at("class"),
                                  dtype = record.at("dtype");
                const Parameters shipped =
                    record.contains("parameters") ? record.at("parameters").get<Parameters>() : Parameters();
                if (schedule == "root" || shipped.empty()) continue;  // an oracle, or a schedule without parameters
                const int l2_bytes = target == "generic" || target == "avx2" ? 256 << 10 : 1 << 20;
                const Facts its = facts_of(targets.at(target).at("halide"), dtype, record.at("head_dim"), {32 << 10, l2_bytes});
                CAPTURE(op, target, record.dump());
                const Space space = Space::read(file, op, schedule, shape_class, its);
                CHECK(space.why_not(shipped) == "");
                Parameters completed = space.nearest(shipped);
                for (const auto &[name, value] : shipped) CHECK(completed.at(name) == value);
                checked++;
            }
        }
    }
    CHECK(checked > 300);
}

}  // namespace
}  // namespace attune::tune
