# SPDX-License-Identifier: MIT
"""The Python package against the NumPy computations and the error rule of tests/cli."""
import pathlib
import sys

import numpy as np
import pytest

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[1] / "cli")]
from arrays import normal  # noqa: E402


@pytest.fixture
def rng():
    return np.random.default_rng(1)


@pytest.fixture
def qkv(rng):
    """Four query heads on two, widths that differ."""
    return normal(rng, 2, 4, 3, 8), normal(rng, 2, 2, 5, 8), normal(rng, 2, 2, 5, 6)
