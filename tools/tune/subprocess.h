// SPDX-License-Identifier: MIT
// Other programs, run with a limit on their time: compilers, linkers and workers.
#pragma once
#include <string>
#include <vector>

namespace attune::tune {

struct ProcessResult {
    bool timed_out = false;
    int status = 0;      // status of waitpid()
    std::string output;  // standard output
    std::string errors;  // standard error

    bool ok() const { return !timed_out && status == 0; }
    // "crashed by signal 11 (Segmentation fault)", "exit code 1", "ran longer than 60 s"; empty if ok.
    std::string failure(double limit) const;
};

struct Process {
    std::vector<std::string> arguments;  // the program first, looked for on PATH
    std::string input;                   // standard input
    double limit = 60;                   // seconds; then the process and its children are killed
};

// Runs a process, in a process group of its own, which is killed at its limit and when the tuner itself dies. Throws
// MachineError if the process cannot be started.
ProcessResult run(const Process &);
// Runs many processes, `at_once` at a time; results in their order.
std::vector<ProcessResult> run_all(const std::vector<Process> &, int at_once);

}  // namespace attune::tune
