// SPDX-License-Identifier: MIT
#include "builders.h"
#include "hash.h"
#include "tools/error.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <map>
#include <sys/file.h>
#include <thread>
#include <unistd.h>

namespace attune::tune {
namespace fs = std::filesystem;
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double seconds_between_looks = 0.05, seconds_to_link = 60;
constexpr const char *built_verdict = "built";

void look_later() { std::this_thread::sleep_for(std::chrono::duration<double>(seconds_between_looks)); }

// Moves a file; false where it is not there. A file system over a network may move it and say that it did not.
bool moved(const fs::path &from, const fs::path &to) {
    std::error_code error;
    fs::rename(from, to, error);
    return !error || (!fs::exists(from, error) && fs::exists(to, error));
}

void discard(const fs::path &file) {
    std::error_code error;
    fs::remove_all(file, error);
}

std::vector<fs::path> files_of(const fs::path &folder) {
    std::vector<fs::path> files;
    std::error_code error;
    for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
        if (at->path().extension() != ".new") files.push_back(at->path());
    std::sort(files.begin(), files.end());
    return files;
}

fs::path claim_of(const fs::path &folder, const std::string &job, int rank) {
    return folder / "claims" / (job + "." + std::to_string(rank));
}

// Builds claimed jobs; which of them became kernels.
std::vector<bool> build(const fs::path &folder, int rank, const std::vector<std::string> &claimed, int jobs) {
    std::vector<bool> built(claimed.size());
    std::map<std::string, std::vector<std::size_t>> groups;  // of one cell and limit, as almost always all are
    std::vector<json> all;
    for (std::size_t n = 0; n < claimed.size(); n++) {
        all.push_back(json::parse(bytes_of(claim_of(folder, claimed[n], rank)), nullptr, false));
        if (!all[n].is_object()) continue;  // rank 0 took the claim back
        json of_cell = all[n];
        of_cell.erase("parameters");
        groups[of_cell.dump()].push_back(n);
    }
    for (const auto &[of_cell, members] : groups) {
        const json first = json::parse(of_cell);
        const CandidateMaker maker(first, folder / "kernels");
        std::vector<Parameters> parameters;
        for (const std::size_t n : members) parameters.push_back(all[n].at("parameters").get<Parameters>());
        const std::vector<Candidate> made = maker.make(parameters, jobs, first.at("limit").get<double>());
        for (std::size_t n = 0; n < members.size(); n++) built[members[n]] = made[n].verdict.empty();
    }
    return built;
}

void finish(const fs::path &folder, int rank, const std::string &job, bool built) {
    if (!fs::exists(claim_of(folder, job, rank))) return;  // rank 0 took the claim back, or ended
    publish(folder / "done" / job, built ? built_verdict : "not built");
    discard(claim_of(folder, job, rank));
}

}  // namespace

fs::path folder_of_ranks(const std::string &records) { return fs::absolute(records).string() + ".ranks"; }

Builders::Builders(fs::path folder, int ranks, double silence) : folder_(std::move(folder)), silence_(silence) {
    std::error_code error;
    fs::create_directories(folder_, error);
    // Ranks run what the jobs name: the folder is its owner's alone.
    if (!error) fs::permissions(folder_, fs::perms::owner_all, error);
    if (error) throw program::MachineError(folder_, "cannot be made: " + error.message());
    lock_ = ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (lock_ < 0 || ::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
        const std::string why = lock_ >= 0 && errno == EWOULDBLOCK ? "another run with these records is under way"
                                                                   : std::string("cannot be locked: ") + std::strerror(errno);
        if (lock_ >= 0) ::close(lock_);
        throw program::MachineError(folder_, why);
    }
    for (const char *part : {"beats", "jobs", "claims", "kernels", "done"}) {  // what a killed run left goes
        discard(folder_ / part);
        fs::create_directories(folder_ / part, error);
        if (error) throw program::MachineError(folder_ / part, "cannot be made: " + error.message());
    }
    heartbeat_.emplace(folder_ / "beats" / "0");
    for (int rank = 1; rank < ranks; rank++) others_.emplace_back(folder_ / "beats" / std::to_string(rank));
}

Builders::~Builders() {
    heartbeat_.reset();
    discard(folder_);
    ::close(lock_);
}

void Builders::wait_for_all() {
    const auto start = Clock::now();
    const auto seen = [this] {
        bool all = true;
        for (Pulse &other : others_) all = other.beats() && all;
        return all;
    };
    while (!seen() && std::chrono::duration<double>(Clock::now() - start).count() < silence_) look_later();
}

std::vector<Candidate> Builders::make(const CandidateMaker &maker, const std::vector<Parameters> &all, int jobs, double limit) {
    std::vector<Candidate> made(all.size());
    std::list<Job> open;
    for (std::size_t n = 0; n < all.size(); n++) {
        if (const auto known = maker.find(all[n])) {
            made[n] = *known;
            continue;
        }
        char name[16];
        std::snprintf(name, sizeof name, "%08d", posted_++);
        open.push_back({n, name, Clock::now()});
        publish(folder_ / "jobs" / name, maker.job(all[n], limit).dump());
    }
    while (!open.empty()) {
        // This rank's share.
        std::vector<std::list<Job>::iterator> own;
        for (auto job = open.begin(); job != open.end() && own.size() < std::size_t(jobs); ++job)
            if (moved(folder_ / "jobs" / job->name, claim_of(folder_, job->name, 0))) own.push_back(job);
        std::vector<Parameters> parameters;
        for (const auto &job : own) parameters.push_back(all[job->candidate]);
        const std::vector<Candidate> built = maker.make(parameters, jobs, limit);
        for (std::size_t n = 0; n < own.size(); n++) {
            made[own[n]->candidate] = built[n];
            discard(claim_of(folder_, own[n]->name, 0));
            open.erase(own[n]);
        }
        if (!own.empty()) continue;
        // The others'.
        const std::size_t before = open.size();
        for (auto job = open.begin(); job != open.end();)
            job = take(*job, maker, all[job->candidate], limit, made[job->candidate]) ? open.erase(job) : std::next(job);
        if (open.size() < before) continue;
        give_up_claims(open);
        look_later();
    }
    return made;
}

// Takes what another rank has built. A candidate that it could not build is built here, too: its machine may lack something,
// and a verdict is recorded for good.
bool Builders::take(const Job &job, const CandidateMaker &maker, const Parameters &parameters, double limit, Candidate &made) {
    const fs::path done = folder_ / "done" / job.name;
    const std::string verdict = bytes_of(done);
    const double spent = std::chrono::duration<double>(Clock::now() - job.posted).count();
    const bool late = spent > limit + seconds_to_link + silence_;  // though whoever claimed it gives signs of life
    if (verdict.empty() && !late) return false;
    discard(done);
    discard(folder_ / "jobs" / job.name);  // of a claim that was given up
    std::optional<Candidate> built;
    if (verdict == built_verdict) built = maker.adopt(parameters, folder_ / "kernels");
    if (built) {
        made = *built, built_by_others_++;
        return true;
    }
    made = maker.make({parameters}, 1, limit).front();
    return true;
}

// Candidates that silent ranks have claimed may be claimed again.
void Builders::give_up_claims(const std::list<Job> &open) {
    for (std::size_t n = 0; n < others_.size(); n++) {
        others_[n].beats();
        if (others_[n].silent_seconds() <= silence_) continue;
        for (const Job &job : open) moved(claim_of(folder_, job.name, static_cast<int>(n) + 1), folder_ / "jobs" / job.name);
    }
}

int build_for_rank_0(const fs::path &folder, const Rank &rank, int jobs, double silence) {
    const std::string own = "rank " + std::to_string(rank.number);
    const fs::path leader_file = folder / "beats" / "0";
    Pulse leader(leader_file);
    while (!leader.beats()) {
        if (leader.silent_seconds() > silence)
            throw program::MachineError(own, "rank 0 did not come to " + folder.string() +
                                                 ": --records must name a file in a folder that all hosts see");
        look_later();
    }
    const std::string run = leader.name();
    const Heartbeat heartbeat(folder / "beats" / std::to_string(rank.number));
    int built = 0;
    for (;;) {
        leader.beats();
        if (leader.name() != run || !fs::exists(leader_file)) return built;
        if (leader.silent_seconds() > silence)
            throw program::MachineError(own, "rank 0 is silent: it ended, or its folder is not seen here any more");
        std::vector<std::string> claimed;
        for (const fs::path &job : files_of(folder / "jobs"))
            if (claimed.size() < std::size_t(jobs) && moved(job, claim_of(folder, job.filename(), rank.number)))
                claimed.push_back(job.filename());
        if (claimed.empty()) {
            look_later();
            continue;
        }
        std::vector<bool> verdicts(claimed.size());
        std::string failure;
        try {
            verdicts = build(folder, rank.number, claimed, jobs);
        } catch (const std::exception &error) {
            failure = error.what();
        }
        for (std::size_t n = 0; n < claimed.size(); n++) {
            built += verdicts[n];
            finish(folder, rank.number, claimed[n], verdicts[n]);
        }
        // A launcher ends all ranks where one fails; the others can do without this one.
        if (!failure.empty()) {
            std::fprintf(stderr, "attune: %s builds no more: %s\n", own.c_str(), failure.c_str());
            return built;
        }
    }
}

}  // namespace attune::tune
