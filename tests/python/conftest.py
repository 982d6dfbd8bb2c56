# SPDX-License-Identifier: MIT
"""The Python package against the NumPy computations and the error rule of tests/cli."""
import os
import pathlib
import shutil
import subprocess
import sys

import attune
import numpy as np
import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "cli")]
from arrays import normal  # noqa: E402


@pytest.fixture(scope="session")
def mpirun():
    """The command that starts ranks of MPI. Skips where mpi4py is not installed or finds no library of MPI: a process of its
    own looks, since it may end by looking."""
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not installed")
    if subprocess.run([sys.executable, "-c", "from mpi4py import MPI"], capture_output=True).returncode:
        pytest.skip("mpi4py with a library of MPI is not installed")
    version = subprocess.run(["mpirun", "--version"], capture_output=True, text=True).stdout
    return ["mpirun", *(["--allow-run-as-root", "--oversubscribe"] if "Open MPI" in version else [])]


@pytest.fixture(scope="session")
def recency_source():
    """The attention of docs/write-your-own-attention.md."""
    return pathlib.Path(__file__).resolve().parents[1] / "install" / "author" / "score.h"


@pytest.fixture(scope="session")
def recency(recency_source):
    """That attention, defined: needs an installed library in ATTUNE_ROOT, and what makes kernels; $XDG_CACHE_HOME keeps what is
    built."""
    if not os.environ.get("ATTUNE_ROOT") or not os.environ.get("XDG_CACHE_HOME"):
        pytest.skip("ATTUNE_ROOT names no library, or XDG_CACHE_HOME no cache")
    try:
        return attune.define("recency", recency_source, dtypes=["f32", "f64"])
    except attune.UnsupportedError as error:
        pytest.skip(str(error))


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def qkv(rng):
    """Four query heads on two, widths that differ."""
    return normal(rng, 2, 4, 3, 8), normal(rng, 2, 2, 5, 8), normal(rng, 2, 2, 5, 6)
