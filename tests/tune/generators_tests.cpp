// SPDX-License-Identifier: MIT
// Search for the programs that make kernels, and the messages where there are none.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/generators.h"

namespace attune::tune {
namespace {

template<typename F> std::string error_of(const F &f) {
    try {
        f();
    } catch (const program::InputError &e) {
        return e.what();
    }
    return "no error";
}
bool contains(const std::string &text, const std::string &part) { return text.find(part) != text.npos; }

}  // namespace

TEST_CASE("generators: those of the tree that a program was built in", "[tune]") {
    const Generators all = Generators::find("cosine", {});
    const GeneratorProgram cosine = all.program("cosine", "f64", "generic"), sdpa = all.program("sdpa", "bf16", "avx512"),
                           linear = all.program("linear_packed", "f32", "generic");
    CHECK(std::filesystem::exists(cosine.program));
    CHECK(cosine.generator == "sdpa");
    CHECK(cosine.parameters == std::vector<std::string>{"pair=cosine"});
    CHECK(cosine.dtype == "float64");
    CHECK(cosine.target == "x86-64-linux");
    CHECK(cosine.attention);
    CHECK(cosine.halide == "21.0.0");
    CHECK(sdpa.program == cosine.program);
    CHECK(sdpa.parameters.empty());
    CHECK(sdpa.dtype == "bfloat16");
    CHECK(contains(sdpa.target, "avx512_skylake"));
    CHECK(sdpa.algorithm == cosine.algorithm);
    CHECK(linear.generator == "linear");
    CHECK(!linear.attention);
    CHECK(linear.algorithm.size() == 16);
    CHECK(linear.algorithm != sdpa.algorithm);
    CHECK(std::filesystem::exists(all.parameters_file("cosine", "generic")));
    CHECK(std::filesystem::exists(all.schedules() + "/targets.json"));
    CHECK(all.like("cosine") == "cosine");
    CHECK_FALSE(all.is_users("cosine"));
}

TEST_CASE("generators: what is wrong is said", "[tune]") {
    const std::string unknown = error_of([] { Generators::find("spda", {}); });
    CHECK(contains(unknown, "spda: "));
    CHECK(contains(unknown, "sdpa_backward"));
    CHECK_FALSE(contains(unknown, "backward_rows"));  // without shapes
    CHECK_FALSE(contains(unknown, "peers_"));         // attentions of this tree's benchmarks
    const Generators all = Generators::find("sdpa", {});
    CHECK(contains(error_of([&] { all.program("sdpa", "i32", "generic"); }), "i32: "));
    CHECK(contains(error_of([&] { all.program("sdpa", "f32", "zen40"); }), "zen40: "));
    CHECK(contains(error_of([&] { all.module("sdpa"); }), "no attention of your own"));
    const TemporaryFolder folder;
    CHECK(contains(error_of([&] { Generators::find("sdpa", folder / "none"); }), "--build: "));
    folder.write("attune_generators.json", "{\"schema\": 1");
    CHECK(contains(error_of([&] { Generators::find("sdpa", folder / ""); }), "attune_generators.json: "));
    folder.write("attune_generators.json", "{\"schema\": 2}");
    CHECK(contains(error_of([&] { Generators::find("sdpa", folder / ""); }), "another version"));
}

TEST_CASE("generators: of a user's attention, parameters are those of sdpa", "[tune]") {
    const TemporaryFolder folder;
    folder.write("attune_generators.json",
                 R"({"schema": 1, "halide": "21.0.0", "cmake": "false", "config": "", "source_dir": "/none",
      "targets": {"generic": "x86-64-linux"},
      "programs": {"mine.generator": {"file": "/none/mine.generator", "sources": []}},
      "ops": {"mine": {"program": "mine.generator", "generator": "sdpa", "parameters": [], "attention": true, "like": "sdpa",
                       "module": {"target": "mine_tune", "file": "/none/libmine_tune.so"}}}})");
    const Generators all = Generators::find("mine", folder / "");
    CHECK(all.like("mine") == "sdpa");
    CHECK(all.is_users("mine"));
    CHECK(all.tunable() == "mine");
    CHECK(all.space_file("mine") == "/none/schedules/sdpa/space.json");
    CHECK(contains(error_of([&] { all.parameters_file("mine", "generic"); }), "--out: "));
    // A failed build is a machine error.
    CHECK_THROWS_AS(all.program("mine", "f32", "generic"), program::MachineError);
    CHECK_THROWS_AS(all.module("mine"), program::MachineError);
}

}  // namespace attune::tune
