// SPDX-License-Identifier: MIT
// What the program throws: an input that it refuses, or a failure of the machine. main() turns it into one line.
#pragma once
#include <stdexcept>
#include <string>

namespace attune::program {

// Bad input: `argument` is what the user gave ("--query"), `what` is wrong with it. Exit code 2.
struct InputError : std::runtime_error {
    InputError(const std::string &argument, const std::string &what) : std::runtime_error(argument + ": " + what) {}
};

// The input is fine, the machine is not (disk full, out of memory), or a defect. Exit code 1.
struct MachineError : std::runtime_error {
    MachineError(const std::string &argument, const std::string &what) : std::runtime_error(argument + ": " + what) {}
};

}  // namespace attune::program
