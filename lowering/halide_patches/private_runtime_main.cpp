// SPDX-License-Identifier: MIT
// attune_private_runtime OBJECT: make_runtime_private() for Halide's runtime, whose object one of Halide's programs makes.
#include "lowering/halide_patches/private_runtime.h"

int main(int argc, char **argv) { return argc == 2 && attune::make_runtime_private(argv[1]) ? 0 : 1; }
