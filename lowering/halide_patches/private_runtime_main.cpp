// SPDX-License-Identifier: MIT
// attune_private_runtime OBJECT: for Halide's runtime, which a program of Halide's makes.
#include "lowering/halide_patches/private_runtime.h"

int main(int argc, char **argv) { return argc == 2 && attune::make_runtime_private(argv[1]) ? 0 : 1; }
