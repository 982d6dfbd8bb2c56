// SPDX-License-Identifier: MIT
// Names by content: what is kept in the cache is looked up by a hash of all that it depends on.
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace attune::tune {

// Of bytes, not of what an adversary makes: FNV-1a.
std::uint64_t hash_of(const std::string &bytes, std::uint64_t from = 14695981039346656037u);
std::string hex(std::uint64_t);
std::string bytes_of(const std::filesystem::path &);  // empty where it cannot be read

}  // namespace attune::tune
