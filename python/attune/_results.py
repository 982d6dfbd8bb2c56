# SPDX-License-Identifier: MIT
"""Results of several arrays, and the types of arguments."""
from __future__ import annotations

from typing import Any, NamedTuple

ArrayLike = Any  # with __dlpack__, a buffer or __array_interface__, in host memory
Array = Any      # a torch.Tensor where the query is one, else a numpy.ndarray


class BuildError(ValueError):
    """The source of attune.define() has a mistake; `output` is all that the build wrote."""

    def __init__(self, message: str, output: str = ""):
        super().__init__(message)
        self.output = output


class Attention(NamedTuple):
    """out, and lse and weights where they were asked for, else None."""
    out: Array
    lse: Array | None
    weights: Array | None
