# SPDX-License-Identifier: MIT
"""Arrays of the tests."""
import numpy as np


def normal(rng, *shape, dtype=np.float32):
    return rng.standard_normal(shape).astype(dtype)


class WithDLPack:
    """An array that has DLPack and nothing else."""

    def __init__(self, array):
        self.array = array

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)


class OldDLPack(WithDLPack):
    """One of before DLPack 1.0: no max_version, no word on what may be written."""

    def __dlpack__(self):
        return self.array.__dlpack__()


class WithInterface:
    """An array that has __array_interface__ and nothing else."""

    def __init__(self, array):
        self.array, self.__array_interface__ = array, array.__array_interface__


def in_rows(array):
    """The same numbers, laid out (B, S, H, D)."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).swapaxes(1, 2)
