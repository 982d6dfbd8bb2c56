#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks that the loops of the machine's peaks keep their accumulators in registers: one that goes through the stack takes
three times as long, and every share of a peak would be three times too high.

check_peaks.py LIBRARY    the library of bench/cases
"""
import re
import subprocess
import sys

PRODUCT = re.compile(r"^(vfmadd\d+p[sd]|mulp[sd]|vdpbf16ps|fmla|bfdot)\b")
LOOP = re.compile(r"bench::\(anonymous namespace\)::((?:fma|dot)_\w+)\(")
CHAINS = 12


def functions(library):
    """{name: instructions} of the loops."""
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", "--demangle", library], check=True, capture_output=True,
                          text=True).stdout
    found = {}
    for name, body in re.findall(r"^[0-9a-f]+ <(.*?)>:\n(.*?)(?=\n\n|\Z)", text, re.M | re.S):
        if loop := LOOP.search(name):
            found[loop[1]] = re.findall(r"^\s*[0-9a-f]+:\s+(.*)$", body, re.M)
    return found


def main():
    loops = functions(sys.argv[1])
    wrong = [] if loops else ["no loop of a peak was found"]
    for name, instructions in loops.items():
        products = [line for line in instructions if PRODUCT.match(line)]
        in_memory = [line for line in products if "(" in line or "[" in line]
        if len(products) < CHAINS or in_memory:
            wrong.append(f"{name}: {len(products)} products, {len(in_memory)} with a factor in memory")
    print("\n".join(wrong) or f"{len(loops)} loops: {', '.join(sorted(loops))}")
    return len(wrong) > 0


sys.exit(main())
