# SPDX-License-Identifier: MIT
"""Types of elements: what files of them hold, what sums over them are kept in, and what stands for them in the error rule.

Of 16 bits the plain computation takes its steps in float32, and stores scores, weights and results in the type, as the unfused
computations of other libraries do. NumPy has no bfloat16: files hold float32 then.
"""
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class ElementType:
    name: str                       # as in --dtype
    file: type                      # of NumPy
    steps: type                     # of the plain computation, and of lse
    wider: type                     # of the reference
    floor: float                    # of the error rule, in the type
    stored: Callable = np.asarray   # an array of `steps` as it comes back from memory that holds elements

    def of(self, array):
        """An array as a file holds it."""
        with np.errstate(over="ignore"):
            return self.stored(np.asarray(array, self.steps)).astype(self.file)


def as_bfloat16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7fff + (bits >> 16 & 1) & 0xffff0000).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(x), np.float32(np.nan), rounded.reshape(np.shape(x)))


def as_float16(x):
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(np.float16).astype(np.float32)


# Four units in the last place allow eight roundings: the program folds log2(e) into the scale, takes powers of 2 and divides by
# the sum at the end. With 16 bits only the weight and the result are rounded, and one unit allows both.
F32 = ElementType("f32", np.float32, np.float32, np.float64, 4 * float(np.finfo(np.float32).eps))
F64 = ElementType("f64", np.float64, np.float64, np.longdouble, 4 * float(np.finfo(np.float64).eps))
F16 = ElementType("f16", np.float16, np.float32, np.float64, 2.0**-10, as_float16)
BF16 = ElementType("bf16", np.float32, np.float32, np.float64, 2.0**-7, as_bfloat16)


def element_type(dtype):
    """The ElementType of a type of NumPy, or an ElementType itself."""
    return dtype if isinstance(dtype, ElementType) else {np.float32: F32, np.float64: F64}[np.dtype(dtype).type]
