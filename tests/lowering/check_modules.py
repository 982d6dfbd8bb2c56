#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our modules have every function of Halide's that they take the place of: check_modules.py LIBHALIDE MODULE...

A MODULE is the text that a module is assembled of, <name>.ll. Halide's is bitcode in libHalide. The names of
its functions stand one after the other in its table of strings: all of it must read as names that the text defines or declares.
"""
import ctypes
import pathlib
import re
import sys


def strings_of(library, module):
    """The table of names of a module in libHalide: the longest text in its bitcode."""
    symbol = f"halide_internal_initmod_{module}_ll"
    length = ctypes.c_int.in_dll(library, symbol + "_length").value
    bitcode = bytes((ctypes.c_ubyte * length).in_dll(library, symbol))
    return max(re.findall(rb"[\w.$]{8,}", bitcode), key=len).decode()


def main():
    library = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_LOCAL)
    failed = False
    for file in map(pathlib.Path, sys.argv[2:]):
        module = file.name.split(".")[0]
        names = re.findall(r"^(?:define|declare)\b[^@]*@([\w.$]+)", file.read_text(), re.M)
        halides = strings_of(library, module)
        # Longest first, or abs_i8x6 would be read where abs_i8x64 stands.
        # Behind them stands the version of the LLVM that wrote it.
        unknown = re.sub("|".join(map(re.escape, sorted(names, key=len, reverse=True))), " ", halides).split()
        unknown = [name for name in unknown if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", name)]
        if unknown:
            print(f"{module}: Halide's module has names that ours lacks: {' '.join(unknown)}")
        if len(halides) < 300:
            print(f"{module}: no table of names in Halide's module: {halides}")
        failed |= bool(unknown) or len(halides) < 300
        print(f"{module}: {len(names)} names of ours, {len(halides)} characters of Halide's")
    sys.exit(failed)


if __name__ == "__main__":
    main()
