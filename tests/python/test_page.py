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


def test_numpy():
    run(programs("docs/python.md")[0])
    (readme,) = programs("README.md")
    assert readme.count("\n") == 4
    run(readme + "assert out.shape == query.shape\n")


def test_an_attention_of_your_own():
    pytest.importorskip("torch")
    if not os.environ.get("ATTUNE_ROOT") or not os.environ.get("XDG_CACHE_HOME"):
        pytest.skip("ATTUNE_ROOT names no library, or XDG_CACHE_HOME no cache")
    run(programs("docs/python.md")[3])


@pytest.mark.parametrize("at, module", [(1, "torch"), (2, "transformers")])
def test_frameworks(at, module):
    pytest.importorskip(module)
    run(programs("docs/python.md")[at])
