// SPDX-License-Identifier: MIT
// Opens files that the user names.
#pragma once
#include <cstdint>
#include <fstream>
#include <string>

namespace attune::program {

// Opens a regular file for reading, and gives its size. Throws InputError.
std::ifstream open_input(const std::string &argument, const std::string &path, std::uint64_t &bytes);

}  // namespace attune::program
