"""Scaled dot-product attention in NumPy, written from the definition of the masks and of the result and from nothing else."""
import math
from dataclasses import dataclass

import numpy as np


@dataclass
class Masks:
    causal: str | None = None                    # "top-left", "bottom-right", "offset"
    offset: int | np.ndarray | None = None       # one, or (B,)
    window: tuple[int, int] = (-1, -1)
    valid_lens: np.ndarray | None = None         # (B,) or (B, Sq)


def kept_keys(masks, batch, queries, keys):
    """(B, Sq, Sk): does key j take part for query i?"""
    i = np.arange(queries)[None, :, None]
    j = np.arange(keys)[None, None, :]
    off = keys - queries if masks.causal == "bottom-right" else 0
    if masks.offset is not None:
        off = masks.offset
    off = np.broadcast_to(np.asarray(off, np.int64), (batch,))[:, None, None]
    kept = np.ones((batch, queries, keys), bool)
    if masks.causal:
        kept &= j <= i + off
    left, right = masks.window
    if left >= 0:
        kept &= j >= i + off - left
    if right >= 0:
        kept &= j <= i + off + right
    if masks.valid_lens is not None:
        lens = masks.valid_lens.astype(np.int64)
        kept &= j < (lens[:, None, None] if lens.ndim == 1 else lens[:, :, None])
    return kept


@dataclass
class Result:
    out: np.ndarray
    lse: np.ndarray
    weights: np.ndarray


def sdpa(query, key, value, masks=Masks(), scale=None, dtype=np.float64, order=None):
    """Plain, every step in `dtype`. Arrays of rank 4, or of rank 3 for one head. Sums over channels and
    keys are taken one term after another, in the given order if `order`, a random generator, shuffles them."""
    if query.ndim == 3:
        r = sdpa(query[:, None], key[:, None], value[:, None], masks, scale, dtype, order)
        return Result(r.out[:, 0], r.lse[:, 0], r.weights[:, 0])
    batch, heads, queries, head_dim = query.shape
    key_heads, keys = key.shape[1:3]
    head = np.arange(heads) * key_heads // max(heads, 1)
    q, k, v = query.astype(dtype), key.astype(dtype)[:, head], value.astype(dtype)[:, head]
    kept = kept_keys(masks, batch, queries, keys)[:, None]
    # What a masked key holds has no effect, whatever it is.
    unused = ~kept.any(axis=2)[..., None]
    k, v = np.where(unused, dtype(0), k), np.where(unused, dtype(0), v)
    factor = dtype(1 / math.sqrt(head_dim) if scale is None else scale)
    dot = np.zeros((batch, heads, queries, keys), dtype)
    for c in np.arange(head_dim) if order is None else order.permutation(head_dim):
        dot += q[..., :, None, c] * k[..., None, :, c]
    score = np.where(kept, factor * dot, dtype(-np.inf))
    some = kept.any(axis=3, keepdims=True)
    largest = np.where(some, np.max(score, axis=3, keepdims=True, initial=-np.inf), dtype(0))
    power = np.where(kept, np.exp(score - largest), dtype(0))
    total = np.zeros((batch, heads, queries, 1), dtype)
    out = np.zeros((batch, heads, queries, v.shape[3]), dtype)
    for j in np.arange(keys) if order is None else order.permutation(keys):
        total += power[..., j, None]
        out += power[..., j, None] * v[..., j, None, :]
    divisor = np.where(some, total, dtype(1))
    weights, out = power / divisor, out / divisor
    with np.errstate(divide="ignore"):
        lse = np.where(some, largest + np.log(total), dtype(-np.inf))[..., 0]
    return Result(out, lse, weights)


def wider(dtype):
    """The type that results in `dtype` are judged in."""
    return np.float64 if np.dtype(dtype) == np.float32 else np.longdouble


def plain_results(query, key, value, masks, scale, dtype):
    """The plain computation in several orders of summation, all of them equally plain: in a small array the error of one is
    a matter of luck."""
    orders = [None] + [np.random.default_rng(n) for n in range(7)]
    return [sdpa(query, key, value, masks, scale, dtype, order) for order in orders]


def judge(name, got, plain, reference, dtype):
    """The error may be twice that of the plain computation in the same type (the largest of `plain`), plus a rounding floor.

    The floor: where the plain computation happens to be exact (one key, equal scores), the program may still round a few
    times, because it folds log2(e) into the scale, takes powers of 2 and divides by the sum at the end. Each of these is half
    a unit in the last place of at most the largest value in the result; 4 * eps allows eight of them.
    """
    assert got.dtype == dtype and got.shape == reference.shape, name
    infinite = np.isneginf(reference)
    assert np.array_equal(np.isneginf(got), infinite), f"{name}: -inf in other places"
    if np.all(infinite):
        return 0.0
    assert np.all(np.isfinite(got[~infinite])), f"{name}: not finite"
    precise = reference[~infinite]
    error = np.max(np.abs(got[~infinite].astype(precise.dtype) - precise))
    plain_error = max(np.max(np.abs(p[~infinite].astype(precise.dtype) - precise)) for p in plain)
    allowed = 2 * plain_error + 4 * np.finfo(dtype).eps * np.max(np.abs(precise))
    assert error <= allowed, f"{name}: error {error:.3g}, allowed {allowed:.3g} (plain computation: {plain_error:.3g})"
    return float(error / allowed) if allowed > 0 else 0.0
