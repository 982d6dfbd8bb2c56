// SPDX-License-Identifier: MIT
// Candidates that several ranks build, with the generator program of this folder: what other ranks built is what one builds; a
// rank that ends, or lacks something, takes nothing with it; ranks of a run that ended, or never came, end.
#include "temporary.h"
#include "tests/support/catch.h"
#include "tools/error.h"
#include "tools/tune/builders.h"
#include "tools/tune/hash.h"
#include <algorithm>
#include <atomic>
#include <csignal>
#include <set>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

namespace attune::tune {
namespace {

constexpr double silence = 3;  // seconds

// A cell of masked_softmax whose kernels the fake generator makes, and the folder of its ranks.
class SharedCell {
public:
    SharedCell() {
        std::filesystem::copy_file(std::filesystem::path(ATTUNE_TUNE_TESTS) / "fake_generator.sh", program());
        std::filesystem::permissions(program(), std::filesystem::perms::owner_all);
        folder_.write("fake.cpp", "extern \"C\" int attune_candidate_argv(void **) { return 0; }\n");
        REQUIRE(std::system(("c++ -c -fPIC -o " + folder_ / "fake.o" + " " + folder_ / "fake.cpp").c_str()) == 0);
        cell_.op = cell_.like = "masked_softmax", cell_.dtype = "f32", cell_.target = "generic", cell_.schedule = "rows";
    }
    ~SharedCell() {
        for (const pid_t child : children_) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
    }

    std::string program() const { return folder_ / "fake_generator.sh"; }
    std::filesystem::path ranks() const { return folder_ / "records.jsonl.ranks"; }
    CandidateMaker maker(const std::string &cache, std::uint64_t hash = 0) const {
        GeneratorProgram p{.program = program(),
                           .generator = "masked_softmax",
                           .parameters = {},
                           .target = "x86-64-linux",
                           .dtype = "float32",
                           .algorithm = "",
                           .halide = "",
                           .hash = hash};
        return {cell_, p, folder_ / cache};
    }
    static std::vector<Parameters> candidates(int count) {
        std::vector<Parameters> all;
        for (int n = 0; n < count; n++) all.push_back({{"block", 16 + n}, {"task_rows", 4}});
        return all;
    }
    // Another rank, in a process of its own.
    pid_t start(int number, int size, int jobs = 1) {
        const pid_t child = ::fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            int code = 3;
            try {
                code = build_for_rank_0(ranks(), {number, size, 1}, jobs, silence) > 0 ? 0 : 4;
            } catch (const std::exception &error) {
                std::fprintf(stderr, "%s\n", error.what());
            }
            ::_exit(code);
        }
        children_.insert(child);
        return child;
    }
    // Its exit code: 0, it built; 3, an exception; 4, it built nothing; -1: a signal.
    int code_of(pid_t child) {
        int status = 0;
        REQUIRE(::waitpid(child, &status, 0) == child);
        children_.erase(child);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    // Candidates that cannot be had: the generator sleeps.
    void slow(const std::string &parameters) const { folder_.write("slow", parameters + "\n"); }
    std::string path(const std::string &name) const { return folder_ / name; }

private:
    Cell cell_;
    TemporaryFolder folder_;
    std::set<pid_t> children_;
};

void check_same(const std::vector<Candidate> &made, const std::vector<Candidate> &alone) {
    REQUIRE(made.size() == alone.size());
    for (std::size_t n = 0; n < made.size(); n++) {
        CHECK(made[n].parameters == alone[n].parameters);
        CHECK(made[n].verdict == alone[n].verdict);
        CHECK(made[n].code == alone[n].code);
        CHECK(made[n].object != alone[n].object);
        CHECK((!made[n].verdict.empty() || std::filesystem::exists(made[n].object)));
    }
}

}  // namespace

TEST_CASE("builders: the ranks of launchers are found in the environment", "[tune]") {
    for (const char *name : {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK",
                             "PMI_SIZE", "MPI_LOCALNRANKS"})
        ::unsetenv(name);
    CHECK(rank_of_environment().size == 1);
    ::setenv("PMI_RANK", "1", 1);
    CHECK(rank_of_environment().size == 1);  // no launcher: it gives both
    ::setenv("PMI_SIZE", "4", 1);
    CHECK((rank_of_environment().number == 1 && rank_of_environment().size == 4 && rank_of_environment().on_host == 1));
    ::setenv("OMPI_COMM_WORLD_RANK", "2", 1), ::setenv("OMPI_COMM_WORLD_SIZE", "3", 1);
    ::setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "2", 1);
    CHECK((rank_of_environment().number == 2 && rank_of_environment().size == 3 && rank_of_environment().on_host == 2));
    for (const char *wrong : {"3", "-1", "two"}) {
        ::setenv("OMPI_COMM_WORLD_RANK", wrong, 1);
        CHECK_THROWS_AS(rank_of_environment(), program::InputError);
    }
    for (const char *name :
         {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "PMI_RANK", "PMI_SIZE"})
        ::unsetenv(name);
}

TEST_CASE("builders: several ranks build what one builds", "[tune]") {
    SharedCell cell;
    const auto all = SharedCell::candidates(40);
    const auto alone = cell.maker("alone").make(all, 2, 60);
    const pid_t first = cell.start(1, 3), second = cell.start(2, 3, 2);
    {
        Builders builders(cell.ranks(), 3, silence);
        builders.wait_for_all();
        const CandidateMaker maker = cell.maker("kernels");
        check_same(builders.make(maker, all, 1, 60), alone);
        const int built = builders.built_by_others();
        CHECK(built > 0);
        check_same(builders.make(maker, all, 1, 60), alone);  // from the cache
        CHECK(builders.built_by_others() == built);
        CHECK(builders.make(maker, {}, 1, 60).empty());
    }
    CHECK(!std::filesystem::exists(cell.ranks()));
    const int codes[] = {cell.code_of(first), cell.code_of(second)};
    CHECK((codes[0] == 0 || codes[0] == 4));
    CHECK((codes[1] == 0 || codes[1] == 4));
    CHECK((codes[0] == 0 || codes[1] == 0));
}

TEST_CASE("builders: a rank that is killed while it builds loses its candidates to others", "[tune]") {
    SharedCell cell;
    const auto all = SharedCell::candidates(12);
    const auto alone = cell.maker("alone").make(all, 2, 60);
    cell.slow("block=");  // none can be had
    const pid_t other = cell.start(1, 2, 4);
    Builders builders(cell.ranks(), 2, silence);
    builders.wait_for_all();
    const CandidateMaker maker = cell.maker("kernels");
    std::thread killer([&] {
        // After the other rank has claimed some: kernels can be had from then on.
        const std::filesystem::path claims = cell.ranks() / "claims";
        const auto claimed = [&] {
            for (const auto &file : std::filesystem::directory_iterator(claims))
                if (file.path().extension() == ".1") return true;
            return false;
        };
        while (!claimed()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        std::filesystem::remove(cell.path("slow"));
        ::kill(other, SIGKILL);
    });
    // The first candidate of rank 0 sleeps until its limit, since its generator had begun.
    const auto made = builders.make(maker, all, 1, 2);
    killer.join();
    CHECK(cell.code_of(other) == -1);
    int timeouts = 0;
    for (std::size_t n = 0; n < made.size(); n++) {
        if (made[n].verdict == "timeout") {
            timeouts++;
            continue;
        }
        CHECK(made[n].verdict == "");
        CHECK(made[n].code == alone[n].code);
    }
    CHECK(timeouts < 8);  // candidates whose generator rank 0 had begun
    CHECK(builders.built_by_others() == 0);
}

TEST_CASE("builders: verdicts of other ranks are not believed", "[tune]") {
    // The program that rank 0 asks for is not that of the other rank, which therefore builds nothing; or it lacks its object.
    SharedCell cell;
    const auto all = SharedCell::candidates(6);
    const pid_t other = cell.start(1, 2, 6);
    Builders builders(cell.ranks(), 2, silence);
    builders.wait_for_all();
    const CandidateMaker other_program = cell.maker("kernels", hash_of("another program"));
    for (const Candidate &candidate : builders.make(other_program, all, 1, 60)) CHECK(candidate.verdict == "");
    CHECK(builders.built_by_others() == 0);
    CHECK(cell.code_of(other) == 4);
}

TEST_CASE("builders: what another rank says to have built, but is not there, is built by rank 0", "[tune]") {
    SharedCell cell;
    const auto all = SharedCell::candidates(8);
    const auto alone = cell.maker("alone").make(all, 2, 60);
    Builders builders(cell.ranks(), 2, silence);
    std::atomic<bool> ended{false};
    std::thread other([&] {  // rank 1 claims from the last candidate on, and builds nothing
        for (const std::string verdict : {"built", "not built", "neither"}) {
            const std::filesystem::path jobs = cell.ranks() / "jobs";
            std::error_code error;
            for (bool claimed = false; !claimed && !ended;) {
                std::vector<std::filesystem::path> files;
                for (const auto &file : std::filesystem::directory_iterator(jobs, error)) files.push_back(file.path());
                std::sort(files.begin(), files.end());
                if (files.empty() || files.back().extension() == ".new") continue;
                const std::filesystem::path claim = cell.ranks() / "claims" / (files.back().filename().string() + ".1");
                std::filesystem::rename(files.back(), claim, error);
                if (error) continue;
                claimed = true;
                publish(cell.ranks() / "done" / files.back().filename(), verdict);
                std::filesystem::remove(claim);
            }
        }
    });
    check_same(builders.make(cell.maker("kernels"), all, 1, 60), alone);
    ended = true;
    other.join();
    CHECK(builders.built_by_others() == 0);
}

TEST_CASE("builders: ranks end where rank 0 is killed, or does not come", "[tune]") {
    SharedCell cell;
    const pid_t leader = ::fork();
    REQUIRE(leader >= 0);
    if (leader == 0) {
        Builders builders(cell.ranks(), 3, silence);
        for (;;) ::pause();
    }
    const pid_t first = cell.start(1, 3);
    while (!std::filesystem::exists(cell.ranks() / "beats" / "1")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    {
        INFO("a second run with the same records");
        CHECK_THROWS_AS(Builders(cell.ranks(), 2, silence), program::MachineError);
    }
    ::kill(leader, SIGKILL), ::waitpid(leader, nullptr, 0);
    CHECK(cell.code_of(first) == 3);
    // The folder is still there, but nobody is.
    CHECK(std::filesystem::exists(cell.ranks() / "beats" / "0"));
    CHECK(cell.code_of(cell.start(2, 3)) == 3);
    // The next run clears it.
    Builders next(cell.ranks(), 1, silence);
    CHECK(!std::filesystem::exists(cell.ranks() / "beats" / "1"));
}

}  // namespace attune::tune
