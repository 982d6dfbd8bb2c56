// SPDX-License-Identifier: MIT
#include "hash.h"
#include <cstdio>
#include <fstream>
#include <iterator>

namespace attune::tune {

std::uint64_t hash_of(const std::string &bytes, std::uint64_t from) {
    for (unsigned char c : bytes) from = (from ^ c) * 1099511628211u;
    return from;
}

std::string hex(std::uint64_t n) {
    char text[17];
    std::snprintf(text, sizeof(text), "%016llx", static_cast<unsigned long long>(n));
    return text;
}

std::string bytes_of(const std::filesystem::path &file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace attune::tune
