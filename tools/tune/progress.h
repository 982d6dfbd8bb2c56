// SPDX-License-Identifier: MIT
// Progress of the tuner on standard error: one line that is rewritten on a terminal, else a line per candidate.
#pragma once
#include "setting.h"
#include <chrono>
#include <cstdio>
#include <string>

namespace attune::tune {

class Progress {
public:
    Progress(std::size_t cells, std::chrono::steady_clock::time_point deadline, double seconds);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    void start_cell(const Cell &);
    void show(const CellResult &, const std::string &phase);
    void say(const std::string &line);  // on a line of its own

private:
    std::string line(const CellResult &, const std::string &phase) const;

    std::size_t cells_, cell_ = 0, trials_ = 0;
    std::chrono::steady_clock::time_point deadline_, shown_ = {};
    double seconds_;
    std::string name_;
    bool terminal_, open_ = false;
};

}  // namespace attune::tune
