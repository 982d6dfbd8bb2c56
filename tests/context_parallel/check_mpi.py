#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ranks of context parallelism as processes of MPI: check_mpi.py openmpi|mpich SOURCE_DIR WORK_DIR LIBRARY... INCLUDE_DIR.

Compiles mpi_ranks.cpp by that MPI's compiler, and runs it with 1 to 4 processes: random cases, a disagreement, a rank that
stops answering. Exit code 77 where there is no such MPI.
"""
import os
import pathlib
import random
import shutil
import subprocess
import sys

name, source, work, *libraries, include = sys.argv[1:]
source, program = pathlib.Path(source), pathlib.Path(work) / f"mpi_ranks_{name}"
compiler, launcher = f"mpicxx.{name}", f"mpirun.{name}"
for needed in (compiler, launcher):
    if not shutil.which(needed):
        print(f"SKIPPED: there is no {needed}")
        sys.exit(77)

command = [compiler, "-std=c++20", "-O1", "-Wall", "-Wextra", f"-I{source}", f"-I{source}/runtime/include", f"-I{include}",
           str(source / "tests/context_parallel/mpi_ranks.cpp"), *libraries, "-pthread", "-ldl", "-o", str(program)]
subprocess.run(command, check=True)


def run(ranks, *arguments, seconds=120):
    """Exit code and output of so many processes; a run beyond its time fails."""
    own = ["--oversubscribe", "--allow-run-as-root"] if name == "openmpi" else []
    command = [launcher, *own, "-n", str(ranks), str(program), *arguments]
    # Processes of Open MPI that share cores must not spin.
    environment = dict(os.environ, OMPI_MCA_mpi_yield_when_idle="1", OMPI_MCA_btl_vader_single_copy_mechanism="none")
    print(" ".join(command), flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=seconds,
                          env=environment)
    print(done.stdout, flush=True)
    return done.returncode, done.stdout


wrong = []
seed = random.randrange(1 << 30)
print(f"seeds from {seed}")
for ranks in (1, 2, 3, 4):
    if run(ranks, "random", str(seed + 50 * (ranks - 1)), "50")[0] != 0:
        wrong.append(f"random cases on {ranks} ranks, seed {seed + 50 * (ranks - 1)}")
if run(3, "disagree")[0] != 0:
    wrong.append("a disagreement is no error on every rank")
told = run(3, "stopped", seconds=60)[1]
for rank in (0, 2):
    if f"rank {rank}: communicator: " not in told:
        wrong.append(f"rank {rank} is not told that rank 1 stopped")
print("\n".join(wrong) or f"{name}: all right")
sys.exit(1 if wrong else 0)
