// SPDX-License-Identifier: MIT
// The command line of `attune tune`.
#pragma once
#include <CLI/CLI.hpp>

namespace attune::program {

void add_tune(CLI::App &);

}  // namespace attune::program
