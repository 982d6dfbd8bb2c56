// SPDX-License-Identifier: MIT
// Building of candidates by several ranks. Rank 0 searches, checks, times and decides. The other ranks build the candidates
// that rank 0 asks for, and nothing while rank 0 checks and times.
//
// Ranks meet in a folder beside the records, which all hosts see:
//   beats/<rank>            heartbeats; the others' begin when rank 0's is seen
//   jobs/<job>              a candidate to build; the rank that renames it to claims/<job>.<rank> builds it
//   kernels/                the kernels that other ranks than 0 have built
//   done/<job>              the verdict
// A rank that ends loses its claims; where rank 0 ends, all others do.
#pragma once
#include "candidates.h"
#include "rank.h"
#include <list>
#include <optional>

namespace attune::tune {

// The folder of a run with these records.
std::filesystem::path folder_of_ranks(const std::string &records);

// The other ranks, as rank 0 sees them.
class Builders {
public:
    // Opens the folder. Throws MachineError where another run uses it. `silence`: seconds after which a rank is given up.
    Builders(std::filesystem::path folder, int ranks, double silence);
    ~Builders();  // ends the run: the others see that the folder is gone
    Builders(const Builders &) = delete;
    Builders &operator=(const Builders &) = delete;

    // Makes candidates side by side, `jobs` at a time on this rank, by all ranks.
    std::vector<Candidate> make(const CandidateMaker &, const std::vector<Parameters> &, int jobs, double limit);

    // Waits until all ranks have been seen, at most as long as a rank may be silent: a rank that comes after the end of the run
    // would wait in vain.
    void wait_for_all();

    int ranks() const { return static_cast<int>(others_.size()) + 1; }
    int built_by_others() const { return built_by_others_; }

private:
    struct Job {
        std::size_t candidate;
        std::string name;
        std::chrono::steady_clock::time_point posted;
    };
    bool take(const Job &, const CandidateMaker &, const Parameters &, double limit, Candidate &);
    void give_up_claims(const std::list<Job> &);

    std::filesystem::path folder_;
    double silence_;
    int lock_ = -1, posted_ = 0, built_by_others_ = 0;
    std::optional<Heartbeat> heartbeat_;
    std::vector<Pulse> others_;  // of rank 1, 2, ...
};

// The loop of a rank other than 0: builds `jobs` candidates at a time until the run has ended. Returns their number. Throws
// MachineError where rank 0 does not come, or falls silent.
int build_for_rank_0(const std::filesystem::path &folder, const Rank &, int jobs, double silence);

}  // namespace attune::tune
