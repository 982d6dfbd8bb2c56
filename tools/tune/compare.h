// SPDX-License-Identifier: MIT
// attune compare: schedules and parameters of one function side by side, on the same operands, in turns.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace attune::tune {

struct CompareArguments {
    std::string op;
    std::optional<std::string> build, shapes, picture;
    std::vector<std::string> captures;    // name=file.npy or name=number
    std::vector<std::string> contenders;  // "label=schedule [name=number...]" or "label=schedule@target"
    int threads = 0, processes = 3;
};

// A table for each shape; the first contender is the baseline of the others. Throws InputError and MachineError.
std::string compare(const CompareArguments &);

}  // namespace attune::tune
