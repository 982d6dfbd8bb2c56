// SPDX-License-Identifier: MIT
// The names of Halide's runtime in an object file, as those of a copy that is the library's own.
//
// Halide's symbols are weak and have the same names in every program: of two copies in a process one serves all, with one set
// of handlers for errors, threads and memory. A shared object that holds the library would leave its handlers in the runtime of
// the program that loads it, where they are called after it is unloaded. So each object of a kernel, and the runtime's, is
// renamed when it is made: halide_malloc becomes attune_malloc. New names are as long as the old ones, and stand in their
// place.
#pragma once
#include <string>

namespace attune {

// Whether it could: false after a line to stderr. What is renamed already stays as it is.
bool make_runtime_private(const std::string &object_file);

}  // namespace attune
