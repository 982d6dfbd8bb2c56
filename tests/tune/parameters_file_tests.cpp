// SPDX-License-Identifier: MIT
// Parameter files: written in the form of schedules/; when a record of several kinds is split, the other kinds keep theirs.
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/parameters_file.h"
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/stat.h>

using namespace attune::tune;
namespace fs = std::filesystem;

namespace {

std::string bytes_of(const fs::path &file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
}

struct Folder {
    fs::path path = fs::temp_directory_path() / fs::path("attune-parameters-XXXXXX");
    Folder() {
        std::string name = path.string();
        REQUIRE(::mkdtemp(name.data()));
        path = name;
    }
    ~Folder() { fs::remove_all(path); }
};

Cell cell_of(const std::string &kind) {
    Cell cell;
    cell.op = "sdpa", cell.dtype = "f32", cell.target = "zen4", cell.schedule = "prefill", cell.shape_class = "long";
    cell.kind = kind, cell.head_dim = 0;
    return cell;
}

}  // namespace

TEST_CASE("tune: every parameters file is written as it was read", "[tune]") {
    int files = 0;
    for (const auto &entry : fs::recursive_directory_iterator(ATTUNE_SCHEDULES)) {
        if (entry.path().parent_path().filename() != "tuned" || entry.path().extension() != ".json") continue;
        INFO(entry.path());
        const std::string op = entry.path().parent_path().parent_path().filename().string();
        CHECK(ParametersFile(entry.path().string(), op, entry.path().stem().string()).text() == bytes_of(entry.path()));
        files++;
    }
    CHECK(files > 50);
}

TEST_CASE("tune: a record of several kinds is split", "[tune]") {
    Folder folder;
    const std::string file = (folder.path / "sdpa" / "zen4.json").string();
    ParametersFile parameters(file, "sdpa", "zen4");
    CHECK_FALSE(parameters.find(cell_of("plain")));
    parameters.set(cell_of("plain"), {{"kv_block", 64}}, {{"how", "first"}});
    parameters.write();
    std::string text = bytes_of(file);
    text.replace(text.find("[\"plain\"]"), 9, "[\"plain\", \"scored\", \"training\"]");
    std::ofstream(file) << text;

    ParametersFile again(file, "sdpa", "zen4");
    again.set(cell_of("scored"), {{"kv_block", 128}}, {{"how", "second"}});
    again.write();
    const ParametersFile read(file, "sdpa", "zen4");
    CHECK(read.find(cell_of("plain")) == Parameters{{"kv_block", 64}});
    CHECK(read.find(cell_of("training")) == Parameters{{"kv_block", 64}});
    CHECK(read.find(cell_of("scored")) == Parameters{{"kv_block", 128}});
    again.set(cell_of("scored"), {{"kv_block", 256}}, {{"how", "third"}});
    CHECK(again.find(cell_of("scored")) == Parameters{{"kv_block", 256}});
    CHECK(again.near(cell_of("scored")).front() == Parameters{{"kv_block", 256}});
}

TEST_CASE("tune: what is no parameters file is refused and left as it is", "[tune]") {
    Folder folder;
    const fs::path file = folder.path / "zen4.json";
    for (const char *text :
         {"", "{", "[]", "{\"schema\": 1}", "{\"schema\": 2, \"op\": \"sdpa\", \"target\": \"zen4\", \"records\": []}",
          "{\"schema\": 1, \"op\": \"linear\", \"target\": \"zen4\", \"records\": []}",
          "{\"schema\": 1, \"op\": \"sdpa\", \"target\": \"zen4\", \"records\": [{}]}"}) {
        std::ofstream(file) << text;
        CHECK_THROWS_AS(ParametersFile(file.string(), "sdpa", "zen4"), attune::program::InputError);
        CHECK(bytes_of(file) == text);
    }
}

TEST_CASE("parameters are written through a link, with the permissions of the file that was there", "[tune]") {
    const Folder folder;
    const fs::path shared = folder.path / "shared.json", linked = folder.path / "zen4.json";
    ParametersFile(shared.string(), "sdpa", "zen4").write();
    fs::create_symlink("shared.json", linked);
    REQUIRE(::chmod(shared.c_str(), 0640) == 0);
    ParametersFile parameters(linked.string(), "sdpa", "zen4");
    parameters.set(cell_of("plain"), {{"kv_block", 32}}, {});
    parameters.write();
    CHECK(fs::is_symlink(linked));
    CHECK(bytes_of(shared).find("32") != std::string::npos);
    struct stat now;
    REQUIRE(::stat(shared.c_str(), &now) == 0);
    CHECK((now.st_mode & 0777) == 0640);
    CHECK(std::distance(fs::directory_iterator(folder.path), {}) == 2);
}
