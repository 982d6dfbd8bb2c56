# SPDX-License-Identifier: MIT
"""Arrays that begin at a cache line, as those do that PyTorch and onnxruntime allocate. NumPy's begin 16 bytes behind one, so
that every access of 64 bytes would cross two lines, for every program of a comparison."""

import numpy as np

LINE = 64  # bytes


def zeros(shape, dtype=np.float32):
    """Written once, so that its pages are there."""
    count, dtype = int(np.prod(shape)), np.dtype(dtype)
    memory = np.full(count * dtype.itemsize + LINE, 0, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first : first + count * dtype.itemsize].view(dtype).reshape(shape)


def zeros_like(array):
    return zeros(array.shape, array.dtype)


def aligned(array):
    """The array itself if it is contiguous, may be written and begins at a line, else a copy that does: OpenVINO refuses one
    that is read-only, as what NumPy broadcasts is."""
    if array.flags.c_contiguous and array.flags.writeable and array.ctypes.data % LINE == 0:
        return array
    copy = zeros_like(array)
    copy[...] = array
    return copy


def normal(random, *shape, scale=1, dtype=np.float32):
    """An array of the standard normal distribution, divided by `scale`."""
    drawn = random.standard_normal(shape, np.float32)
    return aligned((drawn / np.float32(scale) if scale != 1 else drawn).astype(dtype, copy=False))
