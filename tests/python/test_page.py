# SPDX-License-Identifier: MIT
"""The programs of docs/python.md and README.md run as they stand."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

TREE = pathlib.Path(__file__).resolve().parents[2]


def programs(page):
    return re.findall(r"```python\n(.*?)```", (TREE / page).read_text(), re.S)


def run(program):
    done = subprocess.run([sys.executable, "-W", "error::RuntimeWarning", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def run_ranks(tmp_path, launcher, program):
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run([*launcher, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_ranks_of_mpi(tmp_path, mpirun):
    run_ranks(tmp_path, [*mpirun, "-n", "2", sys.executable], programs("docs/python.md")[2])


def test_ranks_of_torch(tmp_path):
    pytest.importorskip("torch")
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run_ranks(tmp_path, launcher, programs("docs/python.md")[3])


def test_numpy():
    run(programs("docs/python.md")[0])
    (readme,) = programs("README.md")
    assert readme.count("\n") == 4
    run(readme + "assert out.shape == query.shape\n")


def test_an_attention_of_your_own():
    pytest.importorskip("torch")
    if not os.environ.get("ATTUNE_ROOT") or not os.environ.get("XDG_CACHE_HOME"):
        pytest.skip("ATTUNE_ROOT names no library, or XDG_CACHE_HOME no cache")
    run(programs("docs/python.md")[5])


@pytest.mark.parametrize("at, module", [(1, "torch"), (4, "transformers")])
def test_frameworks(at, module):
    pytest.importorskip(module)
    run(programs("docs/python.md")[at])
