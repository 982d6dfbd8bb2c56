// SPDX-License-Identifier: MIT
// Errors of the program: an input that it refuses, or a failure of the machine. main() turns an error into one line.
#pragma once
#include <stdexcept>
#include <string>

namespace attune::program {

// Bad input: `argument` is the user's option ("--query"), `what` its fault. Exit code 2.
struct InputError : std::runtime_error {
    InputError(const std::string &argument, const std::string &what) : std::runtime_error(argument + ": " + what) {}
};

// A failure of the machine (disk full, out of memory), or a defect, on good input. Exit code 1.
struct MachineError : std::runtime_error {
    MachineError(const std::string &argument, const std::string &what) : std::runtime_error(argument + ": " + what) {}
};

}  // namespace attune::program
