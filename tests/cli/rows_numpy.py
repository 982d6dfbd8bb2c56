# SPDX-License-Identifier: MIT
"""Rows of queries, keys and values in NumPy, from the definitions of docs/conventions.md: RMS norm, RoPE, Hadamard rotation,
and quantisation to int8 and int4."""
from dataclasses import dataclass

import numpy as np
from attention_numpy import stored, terms


@dataclass
class Rope:
    cos: np.ndarray              # (positions, dim / 2)
    sin: np.ndarray
    offset: int = 0
    interleaved: bool = False


def rope_tables(base, positions, dim, scaling=1.0):
    """cos and sin of positions 0, 1, ..., in double precision, rounded once."""
    angles = np.arange(positions)[:, None] / scaling * np.float64(base) ** (-2 * np.arange(dim // 2) / dim)
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def hadamard_matrix(channels):
    """The rotation in blocks of n channels, n the largest power of two that divides their number."""
    n = channels & -channels
    i = np.arange(n)
    common = np.vectorize(lambda x: int(x).bit_count())(i[:, None] & i)
    return np.kron(np.eye(channels // n), (-1.0) ** common) / np.sqrt(n)


def steps(x, positions, dtype, order=None, weight=None, eps=1e-6, rope=None, hadamard=False):
    """Rows (..., T, H, D) with positions (..., T); each step in dtype, the result stored once."""
    x = x.astype(dtype)
    channels = x.shape[-1]
    if weight is not None:
        squares = np.zeros((*x.shape[:-1], 1), dtype)
        for c in terms(channels, order):
            squares += x[..., c, None] * x[..., c, None]
        x = x / np.sqrt(squares / dtype(channels) + dtype(eps)) * weight.astype(dtype)
    if rope is not None:
        pairs = rope.cos.shape[1]
        at = rope.offset + np.arange(2 * pairs)
        first, second = (at[::2], at[1::2]) if rope.interleaved else (at[:pairs], at[pairs:])
        cos, sin = (table[positions][..., None, :].astype(dtype) for table in (rope.cos, rope.sin))
        x = x.copy()
        a, b = x[..., first], x[..., second]
        x[..., first], x[..., second] = a * cos - b * sin, b * cos + a * sin
    if hadamard:
        matrix = hadamard_matrix(channels).astype(dtype)
        rotated = np.zeros_like(x)
        for c in terms(channels, order):
            rotated += x[..., c, None] * matrix[c]
        x = rotated
    return stored(x)


@dataclass
class Pages:
    """A pool of quantised rows: files of the program, and the numbers that the rows are, in double precision."""
    rows: np.ndarray
    scale: np.ndarray
    minimum: np.ndarray | None
    numbers: np.ndarray


def within_f16(x):
    return np.clip(x, -65504, 65504).astype(np.float16)


def quotients(x, scale):
    """x / scale in float32, 0 where the scale is 0, ties to even."""
    x, scale = np.broadcast_arrays(x.astype(np.float32), scale.astype(np.float32))
    return np.rint(np.divide(x, scale, out=np.zeros(x.shape, np.float32), where=scale != 0))


def int8_of(x, scale_type=np.float32):
    """A scale for each row (..., D)."""
    scale = np.max(np.abs(x), axis=-1).astype(np.float32) / np.float32(127)
    scale = within_f16(scale) if scale_type == np.float16 else scale
    q = np.clip(quotients(x, scale[..., None]), -127, 127).astype(np.int8)
    return Pages(q, scale, None, q * scale[..., None].astype(np.float64))


def int8_by_scale(x, scale):
    """The caller's own scale, (1,) or (H, D)."""
    q = np.clip(quotients(x, scale), -127, 127).astype(np.int8)
    return Pages(q, scale, None, q * scale.astype(np.float64))


def int4_of(x, group):
    """A scale and a minimum for each group of channels, two channels a byte, the even one in the low four bits."""
    groups = x.astype(np.float32).reshape(*x.shape[:-1], -1, group)
    low, high = groups.min(-1), groups.max(-1)
    minimum, scale = within_f16(low), within_f16((high - low) / np.float32(15))
    q = np.clip(quotients(groups - minimum[..., None].astype(np.float32), scale[..., None]), 0, 15).astype(np.uint8)
    numbers = (minimum[..., None].astype(np.float64) + q * scale[..., None].astype(np.float64)).reshape(x.shape)
    q = q.reshape(x.shape)
    return Pages(q[..., ::2] | q[..., 1::2] << 4, scale, minimum, numbers)
