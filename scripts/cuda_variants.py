#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks the PTX of every variant for CUDA with ptxas.

cuda_variants.py --check FOLDER NAME,NAME...   no registers spilled, no stack, shared memory within the limit
cuda_variants.py --table FOLDER NAME,NAME...   docs/cuda-variants.md, to stdout
FOLDER holds <NAME>.ptx.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

CAPABILITIES = ("sm_80", "sm_90")
MOST_REGISTERS = 255  # of a thread; a multiprocessor then has room for two blocks of four warps
MOST_SHARED = 99 * 1024  # bytes of a block, on request, on GPUs of compute capability 8.0 and later
MIX = {"matrix products": r"mma\.sync", "products": r"fma\.rn\.f32", "exchanges": r"shfl\.sync", "powers": r"ex2\.",
       "loads": r"ld\.global", "shared loads": r"ld\.shared|ldmatrix", "selections": r"selp\."}


def ptx_of(folder, name):
    return (pathlib.Path(folder) / f"{name}.ptx").read_text()


def assemble(ptx, capability):
    """Figures of ptxas for all kernels of a variant: most registers, spilled bytes, stack."""
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "kernel.ptx"
        source.write_text(ptx)
        said = subprocess.run(["ptxas", "-v", f"-arch={capability}", source, "-o", os.devnull], capture_output=True, text=True)
    if said.returncode:
        return {"error": said.stderr.strip()}
    find = lambda pattern: [int(n) for n in re.findall(pattern, said.stderr)]
    return {"registers": max(find(r"Used (\d+) registers")), "spilled": sum(find(r"(\d+) bytes spill")),
            "stack": sum(find(r"(\d+) bytes stack frame"))}


def shared_memory(ptx):
    """Bytes of shared memory of a block, as lowering/device_generator_main.cpp writes them: ptxas does not know them."""
    return int(re.search(r"^// shared memory: (\d+) bytes$", ptx, re.M)[1])


def defects(name, ptx, figures):
    for capability, f in figures.items():
        where = f"{name} for {capability}: "
        if "error" in f:
            yield where + f["error"]
            continue
        for what in ("spilled", "stack"):
            if f[what]:
                yield where + f"{f[what]} bytes {what}"
        if f["registers"] > MOST_REGISTERS:
            yield where + f"{f['registers']} registers"
    if shared_memory(ptx) > MOST_SHARED:
        yield f"{name}: {shared_memory(ptx)} bytes of shared memory"
    if ".extern .func" in ptx or ".local" in ptx:
        yield f"{name}: an extern function, or memory of a thread's own"


def table(results):
    yield "# Variants for CUDA"
    yield ""
    yield "Made by `scripts/cuda_variants.py --table` from what ptxas says of the PTX, for compute capability 8.0 / 9.0, and"
    yield "from the instructions in the PTX of all kernels of a variant: every loop once (of attention both over keys, of whole"
    yield "KV blocks and of the others), and what surrounds them. Registers are those of the kernel that has most."
    yield "Shared memory is what a block is launched with, in bytes."
    yield ""
    yield "| variant | registers | spilled | shared memory | " + " | ".join(MIX) + " | all |"
    yield "|---|---:|---:|---:|" + "---:|" * (len(MIX) + 1)
    for name, (ptx, figures) in results.items():
        operations = collections.Counter(re.findall(r"^\s+(?:@!?%p\d+\s+)?([a-z][a-z0-9_.]*)\s", ptx, re.M))
        counts = [sum(n for op, n in operations.items() if re.match(p, op)) for p in MIX.values()]
        both = lambda key: " / ".join(str(f.get(key, "?")) for f in figures.values())
        cells = [f"`{name.replace('_as_ptx', '')}`", both("registers"), both("spilled"), str(shared_memory(ptx)),
                 *map(str, counts), str(sum(operations.values()))]
        yield "| " + " | ".join(cells) + " |"


def main(mode, folder, names):
    if not shutil.which("ptxas"):
        print("SKIPPED: ptxas is not installed")
        return 0
    names = names.split(",")
    ptx = {name: ptx_of(folder, name) for name in names}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = {(n, c): pool.submit(assemble, ptx[n], c) for n in names for c in CAPABILITIES}
    results = {n: (ptx[n], {c: jobs[n, c].result() for c in CAPABILITIES}) for n in names}
    if mode == "--table":
        print("\n".join(table(results)))
        return 0
    wrong = [d for n, (text, figures) in results.items() for d in defects(n, text, figures)]
    print("\n".join(wrong))
    print(f"{len(names)} kernels for {' and '.join(CAPABILITIES)}, {len(wrong)} wrong")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("--check", "--table"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
