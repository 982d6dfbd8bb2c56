# SPDX-License-Identifier: MIT
"""Makes a kernel by a generator, or takes a file, and says which instructions it should have or lack, and how often it has
them.

usage: check_codegen.py NAME [--file FILE | --generator PROGRAM --folder FOLDER --products P,P] [--in assembly|object|bitcode]
         [--contains REGEX]... [--lacks REGEX]... [--at-most N REGEX]... [-- PARAMETER...]
An expectation is of the last --in before it: of the assembly, at first, of the object, disassembled, or of the strings of the
bitcode, which names intrinsics.
"""
import argparse
import pathlib
import re
import subprocess
import sys

SUFFIX = {"assembly": ".s", "object": ".o", "bitcode": ".bc"}


class Expect(argparse.Action):
    """Adds (product, instruction, least, most) to the expectations."""

    def __call__(self, parser, options, value, option):
        product = options.product or "assembly"
        if option == "--at-most":
            most, instruction = value
            expected = product, instruction, 0, int(most)
        else:
            expected = (product, value, 1, None) if option == "--contains" else (product, value, 0, 0)
        options.expected = [*(options.expected or []), expected]


def read_options(arguments):
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--file", type=pathlib.Path)
    parser.add_argument("--generator", type=pathlib.Path)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--products", default="assembly")
    parser.add_argument("--in", dest="product", choices=("assembly", "object", "bitcode"))
    parser.add_argument("--contains", action=Expect, dest="expected")
    parser.add_argument("--lacks", action=Expect, dest="expected")
    parser.add_argument("--at-most", action=Expect, dest="expected", nargs=2)
    parameters = []
    if "--" in arguments:
        end = arguments.index("--")
        arguments, parameters = arguments[:end], arguments[end + 1:]
    options = parser.parse_args(arguments)
    if not options.expected:
        parser.error("nothing is expected")
    return options, parameters


def make(options, parameters):
    """The kernel's file without its suffix; a generator makes what it is asked for, and nothing else."""
    kernel = options.folder / options.name
    for suffix in SUFFIX.values():
        kernel.with_suffix(suffix).unlink(missing_ok=True)
    registered = options.generator.name.split(".")[0]
    command = [options.generator, "-g", registered, "-f", options.name, "-n", options.name, "-o", options.folder,
               "-e", options.products, *parameters]
    if subprocess.run(command).returncode != 0:
        sys.exit(f"{options.name}: the generator failed")
    for product, suffix in SUFFIX.items():
        asked = product in options.products.split(",")
        if asked != kernel.with_suffix(suffix).exists():
            sys.exit(f"{options.name}: {product} was {'' if asked else 'not '}asked for and was {'not ' if asked else ''}made")
    return kernel


def instructions(kernel, product):
    file = kernel.with_suffix(SUFFIX[product])
    if product == "assembly":
        return file.read_text().splitlines()
    if product == "bitcode":
        return re.findall(r"[ -~]+", file.read_bytes().decode("latin-1"))
    return subprocess.run(["objdump", "-d", file], check=True, capture_output=True, text=True).stdout.splitlines()


def failure(lines, instruction, least, most):
    found = [line.strip() for line in lines if re.search(instruction, line)]
    if len(found) >= least and (most is None or len(found) <= most):
        return None
    wanted = f"at least {least}" if most is None else f"at most {most}" if most else "none"
    return f"expected {wanted} of {instruction}, found {len(found)}" + (f", such as: {found[0]}" if found else "")


def main():
    options, parameters = read_options(sys.argv[1:])
    kernel = options.file.with_suffix("") if options.file else make(options, parameters)
    lines_of = {product: instructions(kernel, product) for product in {expected[0] for expected in options.expected}}
    failures = [(product, said) for product, *expected in options.expected
                if (said := failure(lines_of[product], *expected))]
    for product, said in failures:
        print(f"{options.name}, {product}: {said}")
    return 1 if failures else 0


sys.exit(main())
