// SPDX-License-Identifier: MIT
// Hashes as names: files in the cache are looked up by a hash of all that they depend on.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace attune::tune {

// FNV-1a hash; not safe against adversaries.
std::uint64_t hash_of(const std::string &bytes, std::uint64_t from = 14695981039346656037u);
std::string hex(std::uint64_t);
std::string bytes_of(const std::filesystem::path &);  // empty where the file cannot be read

// C++ without comments, blank lines and blanks at the ends of lines: texts whose hash changes with the code alone.
std::string without_comments(const std::string &cpp);

}  // namespace attune::tune
