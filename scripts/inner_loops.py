#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts the instructions of kernels' innermost loops, of x86-64 and of AArch64.

inner_loops.py --check GENERATOR FOLDER NAME EXPECTATION... -- PARAMETER...
    Makes the assembly of a kernel, and fails unless its hot loops, those with at least MINIMUM multiply-adds of vectors, are as
    expected: loops=N (at least so many), minimum=N, share=0.85 (at least, of multiply-adds among all instructions),
    spills=N (at most, accesses to the stack), loads=N (exactly, vectors that a loop loads but those from the stack),
    products=bfdot (the instruction that all multiply-adds of a loop are; any without it).
inner_loops.py --table BUILD REGEX [BUILD REGEX...]
    The first table of the documentation, to stdout: the hot loops of the variants of build folders whose names match.
inner_loops.py --estimates LLVM_MCA CPU,CPU... BUILD REGEX [BUILD REGEX...]
    The second table: for each CPU the multiply-adds a cycle of these loops, as the program llvm-mca predicts them.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

PRODUCTS = re.compile(r"^(fmla|bfdot|bfmmla|smmla|sdot|vfn?m(add|sub)\d+p[sd]|vdpbf16ps|vpdpwssd)\b")
BRANCH = re.compile(r"^(?:b\.\w+|cbn?z|tbn?z|b|j\w+)\s.*?(\.LBB[0-9_]+)$")
LOAD_PAIR = re.compile(r"^ldp\s+q")
LOAD = re.compile(r"^(ldr\s+q|ldur\s+q|ld1r?\b|v?movu?p[sd]\s.*\(.*\),|vmovdq\w+\s.*\(.*\),|vbroadcast\w+\s.*\()")
OPERAND = re.compile(r"^v(?!mov|broadcast)\w+\s.*\(")  # x86-64: an operand in memory
STACK = re.compile(r"\[sp\b|\(%rsp")
Loop = collections.namedtuple("Loop", "instructions products loads spills kinds code")


def loops_of(assembly):
    """The innermost loops: a branch back to a label, with no such loop within."""
    labels, code = {}, []
    for line in assembly.splitlines():
        if label := re.match(r"^(\.?[A-Za-z_0-9.$]+):", line):
            labels[label[1]] = len(code)
        elif re.match(r"^\t[a-z]", line):
            code.append(re.sub(r"\s*(//|##|#\s).*$", "", line.strip()))
    spans = [(labels[to[1]], at) for at, line in enumerate(code)
             if (to := BRANCH.match(line)) and labels.get(to[1], len(code)) <= at]
    for first, last in spans:
        if not any((a, b) != (first, last) and a >= first and b <= last for a, b in spans):
            yield loop_of(code[first:last + 1])


def loop_of(code):
    memory = [line for line in code if not STACK.search(line)]
    loads = sum(2 if LOAD_PAIR.match(line) else bool(LOAD.match(line) or OPERAND.match(line)) for line in memory)
    kinds = collections.Counter(match[1] for line in code if (match := PRODUCTS.match(line)))
    return Loop(len(code), kinds.total(), loads, len(code) - len(memory), tuple(sorted(kinds)), code)


def assembly_of(generator, folder, name, parameters):
    registered = pathlib.Path(generator).name.split(".")[0]
    subprocess.run([generator, "-g", registered, "-f", name, "-n", name, "-o", folder, "-e", "assembly", *parameters],
                   check=True)
    return (pathlib.Path(folder) / f"{name}.s").read_text()


def check(generator, folder, name, words, parameters):
    expected = {"loops": 1, "minimum": 1, "share": 0, "spills": None, "loads": None, "products": None}
    for word in words:
        key, value = word.split("=")
        if key not in expected:
            sys.exit(f"inner_loops.py: there is no expectation {key}")
        expected[key] = value if key == "products" else float(value)
    hot = [loop for loop in loops_of(assembly_of(generator, folder, name, parameters))
           if loop.products >= expected["minimum"]]
    failed = len(hot) < expected["loops"]
    for loop in hot:
        share = loop.products / loop.instructions
        wrong = (share < expected["share"] or
                 (expected["spills"] is not None and loop.spills > expected["spills"]) or
                 (expected["loads"] is not None and loop.loads != expected["loads"]) or
                 (expected["products"] is not None and loop.kinds != (expected["products"],)))
        failed |= wrong
        print(f"{'WRONG ' if wrong else ''}{loop._replace(code=())}, share {share:.3f}")
    print(f"{len(hot)} hot loops, expected: {' '.join(words)}")
    return int(failed)


def least_share(loop):
    """The share of products in a loop of the tables: an instruction of integers does the work of two to eight others."""
    return 0.2 if set(loop.kinds) <= {"sdot", "smmla", "vpdpwssd"} else 0.4


def hot_loops_of(build, regex):
    """(variant, loop) of the loops that the tables have."""
    build = pathlib.Path(build)
    ops = json.loads((build / "attune_generators.json").read_text())
    for file in sorted(build.glob("*_variants.txt")):
        op = ops["ops"].get(file.name.removesuffix("_variants.txt"))
        for line in file.read_text().splitlines():
            name, halide, *parameters = line.split()
            if op is None or not re.search(regex, name):
                continue
            with tempfile.TemporaryDirectory() as folder:
                program = ops["programs"][op["program"]]["file"]
                target = f"target={halide}-user_context-no_bounds_query-no_runtime"
                for loop in loops_of(assembly_of(program, folder, name, [target, *parameters])):
                    if loop.products >= 8 and loop.products >= least_share(loop) * loop.instructions:
                        yield name, loop


def rows_of(build, regex):
    for name, loop in hot_loops_of(build, regex):
        share = loop.products / loop.instructions
        yield f"| `{name}` | {loop.products} | {loop.instructions} | {share:.2f} | {loop.loads} | {loop.spills} |"


def rate_of(loop, llvm_mca, cpu):
    """Multiply-adds of vectors a cycle, over 100 rounds whose loads are in L1."""
    said = subprocess.run([llvm_mca, "-mtriple=aarch64", f"-mcpu={cpu}", "-iterations=100"], check=True, text=True,
                          input="".join(f"\t{line}\n" for line in loop.code), capture_output=True).stdout
    return 100 * loop.products / int(re.search(r"^Total Cycles:\s+(\d+)", said, re.M)[1])


def estimates(llvm_mca, cpus, pairs):
    print("## Estimates")
    print()
    print("Multiply-adds a cycle of the loops of AArch64 as LLVM's models of CPUs predict them, over 100 rounds with all")
    print("loads in L1 (`scripts/inner_loops.py --estimates`, llvm-mca 19). Nobody has measured them. Neoverse N2 has two")
    print("vector units, V1 and V2 have four, so 2 and 4 are the most. Apple's M1 is left out: LLVM models it as Cyclone,")
    print("an older core.")
    print()
    print(f"| variant | multiply-adds | {' | '.join(cpus)} |")
    print(f"|---|---:|{'---:|' * len(cpus)}")
    for build, regex in zip(pairs[::2], pairs[1::2]):
        rows = [f"| `{name}` | {loop.products} | " +
                " | ".join(f"{rate_of(loop, llvm_mca, cpu):.2f}" for cpu in cpus) + " |"
                for name, loop in hot_loops_of(build, regex)]
        print("\n".join(dict.fromkeys(rows)))
    return 0


def table(pairs):
    print("# Inner loops")
    print()
    print("Made by `scripts/inner_loops.py --table` from the assembly of kernels: innermost loops with 8 multiply-adds of")
    print("vectors or more, which are 0.4 of the instructions or more (0.2 of integers). Loads are vectors and broadcast")
    print("scalars, spills are accesses to the stack; equal loops of a variant stand once. A multiply-add is of 4 f32 on")
    print("`arm64`, of 16 on `zen5`; `bfdot` of 4 pairs of bf16 and `vdpbf16ps` of 16 count as one, and so do `sdot` of")
    print("4 fours of int8, `smmla` of 4 eights and `vpdpwssd` of 16 pairs of int16.")
    print()
    print("| variant | multiply-adds | instructions | share | loads | spills |")
    print("|---|---:|---:|---:|---:|---:|")
    for build, regex in zip(pairs[::2], pairs[1::2]):
        print("\n".join(dict.fromkeys(rows_of(build, regex))))
    return 0


def main():
    if sys.argv[1:2] == ["--table"] and len(sys.argv) > 3:
        return table(sys.argv[2:])
    if sys.argv[1:2] == ["--estimates"] and len(sys.argv) > 5:
        return estimates(sys.argv[2], sys.argv[3].split(","), sys.argv[4:])
    if sys.argv[1:2] != ["--check"] or "--" not in sys.argv:
        sys.exit(__doc__)
    end = sys.argv.index("--")
    generator, folder, name, *words = sys.argv[2:end]
    return check(generator, folder, name, words, sys.argv[end + 1:])


if __name__ == "__main__":
    sys.exit(main())
