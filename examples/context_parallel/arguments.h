// SPDX-License-Identifier: MIT
// Arguments of the programs here: numbers, each with a default. A wrong one ends the program, before MPI begins.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Argument n, a number above 0.
inline double rate(int argc, char **argv, int n, double otherwise) {
    if (argc <= n) return otherwise;
    char *end = nullptr;
    const double x = std::strtod(argv[n], &end);
    if (end != argv[n] && *end == 0 && x > 0 && x < 1e18) return x;
    std::fprintf(stderr, "argument %d: '%s' is no number above 0\n", n, argv[n]);
    std::exit(2);
}

// Argument n, a whole number from 1.
inline std::int64_t whole_number(int argc, char **argv, int n, std::int64_t otherwise) {
    if (argc <= n) return otherwise;
    char *end = nullptr;
    const long long x = std::strtoll(argv[n], &end, 10);
    if (end != argv[n] && *end == 0 && x >= 1 && x <= 1LL << 40) return x;
    std::fprintf(stderr, "argument %d: '%s' is no whole number from 1\n", n, argv[n]);
    std::exit(2);
}
