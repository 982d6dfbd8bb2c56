// SPDX-License-Identifier: MIT
// The command line of `attune run`.
#pragma once
#include <CLI/CLI.hpp>

namespace attune::program {

// Adds `run` and its commands; each runs when its arguments have been parsed.
void add_run(CLI::App &app);

}  // namespace attune::program
