// SPDX-License-Identifier: MIT
// From parameters to code that can be loaded: the generator program in a process of its own, a linker, and a cache of what they
// made.
#pragma once
#include "cell.h"
#include "generators.h"
#include <chrono>
#include <filesystem>
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
    std::string schedule, shape_class;  // where they are not those of the cell
};

// Of one cell. Kernels are kept in the folder under a hash of all they depend on, the generator program included; so a
// candidate is compiled once for all runs, and a run that was killed finds what it had made.
class CandidateMaker {
public:
    CandidateMaker(const Cell &, const GeneratorProgram &, const std::filesystem::path &cache);

    // Compiled side by side, `jobs` at a time, each within `limit` seconds.
    std::vector<Candidate> make(const std::vector<Parameters> &, int jobs, double limit) const;

private:
    std::vector<std::string> arguments_;  // of the generator program, all but the parameters and where to
    std::string program_;
    std::uint64_t program_hash_;
    std::filesystem::path cache_;
};

// Where kernels, references and records are kept: attune/tune in XDG_CACHE_HOME, or ~/.cache. It exists when this returns.
std::filesystem::path cache_folder();
std::string own_program();
// Takes out of the environment what would change the calls of the workers.
void forget_environment();

}  // namespace attune::tune
