// SPDX-License-Identifier: MIT
// Renaming of Halide's runtime in an object file, so that the library has a copy of its own.
//
// Halide's symbols are weak and have the same names in every program: if a process has two copies, one serves all, with one set
// of handlers for errors, threads and memory. A shared object that holds the library would leave its handlers in the runtime of
// the program that loads it, where they are called after it is unloaded. So each kernel's object, and the runtime's, is renamed
// when it is made: halide_malloc becomes attune_malloc. New names are as long as the old ones, and replace them in place.
#pragma once
#include <string>

namespace attune {

// Returns false, after a line to stderr, if that fails. Names that are renamed already stay as they are.
bool make_runtime_private(const std::string &object_file);

}  // namespace attune
