// SPDX-License-Identifier: MIT
// A rank that is killed in the middle of a call. Ranks are processes without a launcher, which would end all of them with one;
// a message is a file of a folder: killed_rank [CALL], where CALL is forward or backward.
#include "tests/context_parallel/parallel_case.h"
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace attune_test;
using attune::Status, attune::StatusCode;

namespace {

constexpr int ranks = 3, killed = 1;
constexpr double limit = 2;  // seconds

// Messages from rank to rank are numbered; a file gets its name when it is whole.
struct FileRank {
    std::filesystem::path folder;
    int rank;
    int starts_left;  // until the process is killed; -1: never
    int sent[ranks] = {}, received[ranks] = {};

    std::filesystem::path name(int from, int to, int number) const {
        return folder / (std::to_string(from) + "_" + std::to_string(to) + "_" + std::to_string(number));
    }
};
struct Receive {
    std::filesystem::path name;
    void *memory;
    std::size_t bytes;
};

int start_send_receive(void *user, const void *send, std::size_t send_bytes, int to, void *receive, std::size_t receive_bytes,
                       int from, void **request) {
    auto &self = *static_cast<FileRank *>(user);
    if (self.starts_left >= 0 && self.starts_left-- == 0) ::raise(SIGKILL);
    if (to >= 0) {
        const auto name = self.name(self.rank, to, self.sent[to]++);
        auto part = name;
        part += ".part";
        std::ofstream(part, std::ios::binary).write(static_cast<const char *>(send), static_cast<std::streamsize>(send_bytes));
        std::filesystem::rename(part, name);
    }
    *request = from >= 0 ? new Receive{self.name(from, self.rank, self.received[from]++), receive, receive_bytes} : nullptr;
    return 0;
}

int wait(void *, void *request, double seconds) {
    using Clock = std::chrono::steady_clock;
    auto *receive = static_cast<Receive *>(request);
    if (!receive) return 0;
    const auto start = Clock::now();
    while (!std::filesystem::exists(receive->name)) {
        if (std::chrono::duration<double>(Clock::now() - start).count() > seconds) return 1;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream(receive->name, std::ios::binary)
        .read(static_cast<char *>(receive->memory), static_cast<std::streamsize>(receive->bytes));
    delete receive;
    return 0;
}

int abandon(void *, void *request) {
    delete static_cast<Receive *>(request);
    return 0;
}

// A rank's exit code: 0 if its call ended as it should.
int run(const std::filesystem::path &folder, int rank, bool backward) {
    // Rank 1 is killed in the forward, whose first messages are those of the agreement, or in the backward.
    FileRank files{folder, rank, rank == killed ? (backward ? 60 : 12) : -1};
    attune::Communicator communicator;
    communicator.rank = rank, communicator.size = ranks, communicator.time_limit = limit, communicator.user = &files;
    communicator.start_send_receive = start_send_receive, communicator.wait = wait, communicator.abandon = abandon;
    const ParallelCase c{.positions = 240, .chunk = 8, .backward = true};
    const ParallelArrays<float> arrays(c);
    ParallelResults<float> results(c);
    attune::ParallelPlan plan;
    if (!plan_of(c, ranks, plan).ok()) return 2;
    attune::Context context({.threads = 1});
    const auto start = std::chrono::steady_clock::now();
    const Status s = run_rank(context, communicator, c, plan, arrays, results);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("rank %d after %.1f seconds: %s\n", rank, seconds, s.message().c_str());
    const bool forward_came = results.out[std::size_t(plan.of_rank[std::size_t(rank)][0].begin * c.value_dim)] != 77;
    return s.code() == StatusCode::communication && forward_came == backward ? 0 : 1;
}

}  // namespace

int main(int argc, char **argv) {
    const bool backward = argc > 1 && argv[1] == std::string("backward");
    std::string folder = (std::filesystem::temp_directory_path() / "attune_killed_rank_XXXXXX").string();
    if (!::mkdtemp(folder.data())) return 1;
    ::pid_t processes[ranks];
    for (int rank = 0; rank < ranks; rank++) {
        processes[rank] = ::fork();
        if (processes[rank] < 0) return 1;
        if (processes[rank] == 0) {
            const int result = run(folder, rank, backward);
            std::fflush(stdout);
            ::_exit(result);
        }
    }
    bool right = true;
    for (int rank = 0; rank < ranks; rank++) {
        int status = 0;
        ::waitpid(processes[rank], &status, 0);
        right = right && (rank == killed ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                                         : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    std::filesystem::remove_all(folder);
    std::printf(right ? "every other rank was told\n" : "wrong\n");
    return right ? 0 : 1;
}
