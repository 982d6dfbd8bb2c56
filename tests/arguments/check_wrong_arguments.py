# SPDX-License-Identifier: MIT
"""Kernel arguments that are swapped, missing, too many or of another type are an error of the compiler each.

usage: check_wrong_arguments.py COMPILER INCLUDE_DIR...
"""

import subprocess
import sys

compiler, *folders = sys.argv[1:]
RIGHT = [".sums = buffer", ".sums_keys = true", ".grad_capture = buffer"]
OTHER_TYPES = [(1, ".sums_keys = 1"), (1, ".sums_keys = buffer"), (0, ".sums = 1.0"), (0, ".sums = nullptr"),
               (0, ".sums = true")]
WRONG = {"swapped": [RIGHT[0], RIGHT[2], RIGHT[1]], "missing": RIGHT[:2], "first missing": RIGHT[1:],
         "extra": RIGHT + [".other = buffer"]}
for at, argument in OTHER_TYPES:
    WRONG[argument] = RIGHT[:at] + [argument] + RIGHT[at + 1:]


def compiles(arguments):
    code = f"""#include "kernel_arguments.h"
attune::CaptureSumArguments make(halide_buffer_t *buffer) {{ return {{{", ".join(arguments)}}}; }}
"""
    command = [compiler, "-std=c++20", "-fsyntax-only", "-x", "c++", *(f"-I{folder}" for folder in folders), "-"]
    return subprocess.run(command, input=code, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")


failures = [f"{name} arguments compile" for name, arguments in WRONG.items() if compiles(arguments).returncode == 0]
right = compiles(RIGHT)
if right.returncode:
    failures.append(f"right arguments do not compile: {right.stdout}")
print("\n".join(failures) or f"{len(WRONG)} wrong lists of arguments are refused")
sys.exit(bool(failures))
