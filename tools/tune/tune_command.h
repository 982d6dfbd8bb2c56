// SPDX-License-Identifier: MIT
// The command attune tune.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct TuneArguments {
    std::string op;
    std::optional<std::string> build;    // folder of a build with generator programs
    std::optional<std::string> shapes;   // CSV
    std::optional<std::string> out;      // folder for <op>/<target>.json
    std::optional<std::string> picture;  // SVG
    std::optional<std::string> from;     // target whose parameters the search starts from
    std::vector<std::string> records;    // files; the first one is also written
    std::vector<std::string> captures;   // name=file.npy or name=number
    std::string variant = "*";           // glob
    std::string strategy = "factored";
    double minutes = 10;
    int threads = 0, jobs = 0;
    std::uint64_t seed = 1;
    bool cold = false, dry = false;
    int identical = 0;    // trials of the decision between identical candidates, without a search
    double silence = 60;  // seconds after which a rank of a launcher is given up
};

class Builders;
// Under a launcher such as mpirun, for one run or several of attune tune: rank 0 opens a folder, in which the other ranks
// build its candidates (builders.h). Where another rank constructs one, it builds until rank 0 has ended.
class Ranks {
public:
    explicit Ranks(const TuneArguments &);
    ~Ranks();
    Ranks(const Ranks &) = delete;
    Ranks &operator=(const Ranks &) = delete;

    bool leads() const { return leads_; }
    Builders *builders() const { return builders_.get(); }  // null without a launcher
    int on_host() const { return on_host_; }
    // Ends the run after all that rank 0 had to do.
    void end();

private:
    bool leads_ = true;
    int on_host_ = 1;
    std::unique_ptr<Builders> builders_;
};

// Tunes, with progress on standard error; returns a table. Throws InputError and MachineError.
std::string tune(const TuneArguments &, const Ranks &);

}  // namespace attune::tune
