// SPDX-License-Identifier: MIT
// Opening a file that the user names.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace attune::program {

// A regular file for reading, and its size. Throws InputError.
std::ifstream open_input(const std::string &argument, const std::string &path, std::uint64_t &bytes);

}  // namespace attune::program
