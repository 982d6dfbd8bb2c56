// SPDX-License-Identifier: MIT
// main() of Catch2, version 2, for cross-builds.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
