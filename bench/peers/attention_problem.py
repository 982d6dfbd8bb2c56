# SPDX-License-Identifier: MIT
"""One problem of attention for all libraries: its sizes and masks, its arrays, its work and its definition in NumPy."""

import functools
from dataclasses import dataclass

import numpy as np

import reference
from arrays import aligned, normal, zeros

ROWS = 32  # queries of each head that are compared with float64, first and last included
FEW = 16  # queries up to which the heads of a group may stand as queries of one head

try:
    import ml_dtypes
except ImportError:  # NumPy itself has no bfloat16
    ml_dtypes = None


def element_type(dtype):
    """of f32, bf16, f16; None where it needs a package that is not installed."""
    return {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes and ml_dtypes.bfloat16}[dtype]


def dense(mask, queries, keys):
    """With its last two extents full, as some libraries want it."""
    return aligned(np.broadcast_to(mask, (*mask.shape[:-2], queries, keys)))


@dataclass(frozen=True)
class Problem:
    """query (batch, heads, queries, dim), key and value (batch, key_heads, keys, dim). causal is bottom right: the last query
    sees all keys. window counts the keys that a query sees with itself, under causal; 0 is all. lengths: valid keys of
    each batch entry, drawn at random. value_dim: that of value and output; 0: dim."""

    batch: int
    heads: int
    key_heads: int
    queries: int
    keys: int
    dim: int
    dtype: str = "f32"
    causal: bool = False
    window: int = 0
    lengths: bool = False
    value_dim: int = 0

    def __str__(self):
        heads = str(self.heads) if self.heads == self.key_heads else f"{self.heads}/{self.key_heads}"
        words = f"{self.batch}x{heads}x{self.queries}x{self.keys}x{self.dim}"
        words += ", lengths" if self.lengths else ""
        words += f", window {self.window}" if self.window else ", causal" if self.causal else ""
        words += f", values {self.value_dim}" if self.value_dim else ""
        return words + (f", {self.dtype}" if self.dtype != "f32" else "")

    @property
    def grouped(self):
        return self.heads != self.key_heads

    @property
    def out_dim(self):
        return self.value_dim or self.dim

    @property
    def square(self):
        return self.queries == self.keys

    @functools.cached_property
    def arrays(self):
        """query, key, value"""
        random = np.random.default_rng(1)
        extents = ((self.heads, self.queries, self.dim), (self.key_heads, self.keys, self.dim),
                   (self.key_heads, self.keys, self.out_dim))
        return tuple(normal(random, self.batch, *x, dtype=element_type(self.dtype)) for x in extents)

    @functools.cached_property
    def valid_lens(self):
        drawn = np.random.default_rng(2).integers(self.keys // 4, self.keys + 1, self.batch, np.int32)
        return drawn if self.lengths else None

    def empty(self):
        """An output."""
        return zeros((self.batch, self.heads, self.queries, self.out_dim), element_type(self.dtype))

    @functools.cached_property
    def mask(self):
        """The keys that causal, window or lengths keep, to broadcast to (batch, heads, queries, keys); None if all."""
        if self.lengths:
            return (np.arange(self.keys) < self.valid_lens[:, None])[:, None, None, :]
        if not self.causal or self.queries == 1 and not self.window:
            return None
        i, j = np.ogrid[: self.queries, : self.keys]
        position = i + self.keys - self.queries
        return (j <= position) & (j > position - (self.window or self.keys + 1))

    @functools.cached_property
    def scores(self):
        """How many the mask keeps."""
        kept = self.queries * self.keys * self.batch
        if self.mask is not None:
            kept = int(self.mask.sum()) * (self.queries if self.lengths else self.batch)
        return kept * self.heads

    @property
    def flops(self):
        """of the two products, where the mask keeps a score."""
        return 2.0 * self.scores * (self.dim + self.out_dim)

    @property
    def rows(self):
        return np.unique(np.linspace(0, self.queries - 1, min(self.queries, ROWS)).astype(int))

    def reference(self, real):
        """The sampled rows; in float32, of inputs of 16 bits, with weights and result rounded to their type."""
        q, k, v = self.arrays
        group, rows = self.heads // self.key_heads, self.rows
        stored = element_type(self.dtype) if real is np.float32 and self.dtype != "f32" else None
        mask = self.mask if self.mask is None or self.lengths else np.tile(self.mask[rows], (group, 1))
        joined = q[:, :, rows].reshape(self.batch, self.key_heads, -1, self.dim)  # the heads of a group as queries of one
        out = reference.attention(real, joined, k, v, mask=mask, stored=stored)
        return out.reshape(self.batch, self.heads, -1, self.out_dim)
