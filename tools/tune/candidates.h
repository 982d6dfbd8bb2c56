// SPDX-License-Identifier: MIT
// Candidates made from parameters: by the generator program in a process of its own, a linker, and a cache of their results.
#pragma once
#include "cell.h"
#include "generators.h"
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct Candidate {
    Parameters parameters;
    std::string object;   // a shared object
    std::string symbol;   // in it, <symbol>_argv is the kernel
    std::string code;     // hash of its machine code: equal codes are one candidate
    std::string verdict;  // "" where it was made, else "compile_error" or "timeout", as in records
    std::string reason;
    std::string schedule, shape_class;  // where they differ from the cell's
};

// Maker of a cell's candidates. Kernels are kept in the folder under a hash of all they depend on, the generator program
// included: a candidate is compiled once for all runs, and a run finds what a killed run had made.
class CandidateMaker {
public:
    CandidateMaker(const Cell &, const GeneratorProgram &, const std::filesystem::path &cache);
    // That of a job(). Throws MachineError where the generator program of this machine is another one.
    CandidateMaker(const nlohmann::json &job, const std::filesystem::path &cache);

    // Compiles candidates side by side, `jobs` at a time, each within `limit` seconds.
    std::vector<Candidate> make(const std::vector<Parameters> &, int jobs, double limit) const;

    // The candidate if it is in the cache.
    std::optional<Candidate> find(const Parameters &) const;
    // A candidate as data, for a maker of another process.
    nlohmann::json job(const Parameters &, double limit) const;
    // Copies a candidate that another maker has made in a folder of its own into the cache; none where it is not whole there.
    std::optional<Candidate> adopt(const Parameters &, const std::filesystem::path &kernels) const;

private:
    std::filesystem::path file_of(const Parameters &, const std::filesystem::path &folder) const;
    void make_cache() const;

    std::vector<std::string> arguments_;  // of the generator program, without parameters and output
    std::string program_;
    std::uint64_t program_hash_;
    std::filesystem::path cache_;
};

// Folder of kernels, references and records: attune/tune in XDG_CACHE_HOME, or ~/.cache. It exists on return.
std::filesystem::path cache_folder();
std::string own_program();
// Removes environment variables that would change the calls of the workers.
void forget_environment();

}  // namespace attune::tune
