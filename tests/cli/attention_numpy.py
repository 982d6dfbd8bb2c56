# SPDX-License-Identifier: MIT
"""Attention in NumPy, written from the definitions of its options and of its results and from nothing else.

Every step is in `dtype`. Sums over channels, rows of weights and keys are taken one term after another, in the given order if
`order`, a random generator, shuffles them. Within storing(f), scores, weights and results are f of what they were.
"""
import math
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np


_stored = None  # how memory changes an array, if it does


@contextmanager
def storing(how):
    global _stored
    before, _stored = _stored, how
    try:
        yield
    finally:
        _stored = before


def stored(array):
    return array if _stored is None else _stored(array)


@dataclass
class Options:
    scale: float | None = None
    softcap: float = 0
    bias: np.ndarray | None = None               # broadcasts to (B, Hq, Sq, Sk), as mask does
    alibi: np.ndarray | str | None = None        # slopes (Hq,) or (B, Hq), or "auto"
    mask: np.ndarray | None = None
    causal: str | None = None                    # "top-left", "bottom-right", "offset"
    offset: int | np.ndarray | None = None       # one, or (B,)
    window: tuple[int, int] = (-1, -1)
    valid_lens: np.ndarray | None = None         # (B,) or (B, Sq)
    sinks: np.ndarray | None = None              # (Hq,)
    dropout: float = 0
    survivors: np.ndarray | None = None          # (B, Hq, Sq, Sk): which weights dropout keeps
    score: str = "dot"
    score_weight: np.ndarray | None = None


@dataclass
class Result:
    out: np.ndarray
    lse: np.ndarray
    weights: list        # in the modes 0 to 3: scaled, capped, masked, probabilities

    def shaped(self, outer):
        """Leading extents as the caller has them, instead of (B, Hq)."""
        as_given = lambda a: a.reshape(*outer, *a.shape[2:])
        return Result(as_given(self.out), as_given(self.lse), [as_given(w) for w in self.weights])


def offsets(options, batch, default):
    """(B, 1, 1): the position of query 0 among the keys."""
    off = default if options.offset is None else options.offset
    return np.broadcast_to(np.asarray(off, np.int64).reshape(-1), (batch,))[:, None, None]


def kept_keys(options, shape, outer=None):
    """(B, Hq, Sq, Sk): does key j take part for query i? `outer` are the leading extents that masks broadcast to."""
    batch, heads, queries, keys = shape
    i, j = np.arange(queries)[None, :, None], np.arange(keys)[None, None, :]
    off = offsets(options, batch, keys - queries if options.causal == "bottom-right" else 0)
    kept = np.ones((batch, queries, keys), bool)
    if options.causal:
        kept &= j <= i + off
    left, right = options.window
    if left >= 0:
        kept &= j >= i + off - left
    if right >= 0:
        kept &= j <= i + off + right
    if options.valid_lens is not None:
        kept &= j < per_query(options.valid_lens, batch, queries)[:, :, None]
    kept = np.repeat(kept[:, None], heads, axis=1)
    if options.mask is not None:
        kept &= as_weights(options.mask, shape, outer).astype(bool)
    if options.bias is not None:
        bias = as_weights(options.bias, shape, outer)
        kept &= bias >= (-1e308 if bias.dtype == np.float64 else np.float32(-3e38))
    return kept


def per_query(lens, batch, queries):
    """(B, 1) or (B, Sq), from lengths whose leading extents are those of the batch."""
    return lens.astype(np.int64).reshape(batch, 1 if lens.size == batch else queries)


def as_weights(array, shape, outer):
    return np.broadcast_to(array, (*(shape[:2] if outer is None else outer), *shape[2:])).reshape(shape)


def standard_slopes(heads):
    """Press et al., 2022, for any number of heads."""
    n = 1 << (heads.bit_length() - 1) if heads else 1
    exponents = [-8 * (h + 1) / n if h < n else -4 * (2 * (h - n) + 1) / n for h in range(heads)]
    return np.exp2(np.array(exponents)).astype(np.float32)


def alibi(options, shape, dtype):
    batch, heads, queries, keys = shape
    slopes = standard_slopes(heads) if isinstance(options.alibi, str) else options.alibi
    slopes = np.broadcast_to(slopes.reshape(-1, heads) if heads else slopes.reshape(batch, 0), (batch, heads)).astype(dtype)
    off = offsets(options, batch, 0 if options.causal == "top-left" else keys - queries)
    position = np.arange(queries)[None, :, None] + off
    distance = np.abs(position - np.arange(keys)[None, None, :]).astype(dtype)
    return -slopes[:, :, None, None] * distance[:, None]


def terms(count, order):
    return np.arange(count) if order is None else order.permutation(count)


def linear(x, weight, bias, dtype, order=None):
    x, weight = x.astype(dtype), weight.astype(dtype)
    out = np.zeros((*x.shape[:-1], weight.shape[0]), dtype)
    for k in terms(x.shape[-1], order):
        out += x[..., k, None] * weight[:, k]
    return stored(out if bias is None else out + bias.astype(dtype))


def batch_dot(a, x, dtype, order=None):
    a, x = a.astype(dtype), x.astype(dtype)
    out = np.zeros((*a.shape[:-1], x.shape[-1]), dtype)
    for m in terms(a.shape[-1], order):
        out += a[..., :, m, None] * x[..., m, None, :]
    return stored(out)


def sum_over(q, k, term, dtype, order):
    """(..., Sq, Sk): the sum over channels of term(q_i, k_j, channel)."""
    out = np.zeros((*q.shape[:-1], k.shape[-2]), dtype)
    for c in terms(q.shape[-1], order):
        out += term(q[..., :, None, c], k[..., None, :, c], c)
    return out


def product_scores(q, k, options, dtype, order):
    if options.score == "general":
        k = linear(k, options.score_weight, None, dtype, order)
    default = 1 / math.sqrt(q.shape[-1]) if options.score == "dot" else 1
    factor = dtype(default if options.scale is None else options.scale)
    if options.score == "gaussian":
        return -factor / 2 * sum_over(q, k, lambda a, b, c: (a - b) ** 2, dtype, order)
    dot = sum_over(q, k, lambda a, b, c: a * b, dtype, order)
    if options.score == "cosine":
        norm = lambda a: np.sqrt(sum(a[..., c] * a[..., c] for c in terms(a.shape[-1], order)))
        norms = norm(q)[..., :, None] * norm(k)[..., None, :]
        dot = np.where(norms == 0, dtype(0), dot / np.where(norms == 0, dtype(1), norms))
    return factor * dot


def attend(x, v, options, dtype, order, outer=None):
    """From scaled scores on: x (B, Hq, Sq, Sk), v (B, Hq, Sk, Dv)."""
    kept = kept_keys(options, x.shape, outer)
    c = dtype(options.softcap)
    x = stored(x)
    capped = stored(c * np.tanh(x / c)) if options.softcap else x
    score = capped
    if options.bias is not None:
        score = score + as_weights(options.bias, x.shape, outer).astype(dtype)
    if options.alibi is not None:
        score = score + alibi(options, x.shape, dtype)
    score = stored(np.where(kept, score, dtype(-np.inf)))
    largest = np.max(score, axis=3, keepdims=True, initial=-np.inf)
    total = np.zeros_like(largest)
    if options.sinks is not None:
        sinks = options.sinks.astype(dtype)[None, :, None, None]
        largest = np.maximum(largest, sinks)
        total = total + np.exp(sinks - largest)
    some = kept.any(axis=3, keepdims=True)
    normal = some if options.sinks is None else np.ones_like(some)
    largest = np.where(normal, largest, dtype(0))
    power = np.where(kept, np.exp(score - largest), dtype(0))
    # A masked value has no effect, be it NaN or infinite.
    v = np.where(kept.any(axis=2)[..., None], v, dtype(0))
    factor = dtype(1)
    if options.dropout:
        factor = options.survivors.reshape(x.shape) * dtype(0 if options.dropout == 1 else 1 / (1 - options.dropout))
    pv = np.zeros((*x.shape[:3], v.shape[3]), dtype)
    keys = terms(x.shape[3], order)
    for j in keys:
        total = total + power[..., j, None]
    divisor = np.where(normal, total, dtype(1))
    weights = stored(power / divisor)
    surviving = weights * factor
    for j in keys:
        pv += surviving[..., j, None] * v[..., j, None, :]
    lse = np.where(normal, largest + np.log(divisor), dtype(-np.inf))[..., 0]
    return Result(stored(pv), lse, [x, capped, score, weights])


def as_rank_4(array):
    shape = array.shape
    if len(shape) > 4:
        return array.reshape(math.prod(shape[:-3]), *shape[-3:])
    return array.reshape(shape[0] if len(shape) == 3 else 1, 1, *shape[-2:]) if len(shape) < 4 else array


def attention(score, query, key, value, options, dtype, order):
    """query, key and value of any rank from 2; score(q, k) with the heads of key repeated to those of query."""
    outer = query.shape[:-2]
    query, key, value = as_rank_4(query), as_rank_4(key), as_rank_4(value)
    heads, key_heads = query.shape[1], key.shape[1]
    head = np.arange(heads) * key_heads // max(heads, 1)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        x = score(query.astype(dtype), key.astype(dtype)[:, head])
        return attend(x, value.astype(dtype)[:, head], options, dtype, order, outer).shaped(outer)


def sdpa(query, key, value, options=Options(), dtype=np.float64, order=None):
    return attention(lambda q, k: product_scores(q, k, options, dtype, order), query, key, value, options, dtype, order)


@dataclass
class Additive:
    w_query: np.ndarray | None = None
    w_key: np.ndarray | None = None
    b_query: np.ndarray | None = None
    b_key: np.ndarray | None = None
    w_score: np.ndarray | None = None
    b_score: float = 0


def additive(query, key, value, layer, options=Options(), dtype=np.float64, order=None):
    def score(q, k):
        q = q if layer.w_query is None else linear(q, layer.w_query, layer.b_query, dtype, order)
        k = k if layer.w_key is None else linear(k, layer.w_key, layer.b_key, dtype, order)
        w = np.ones(q.shape[-1], dtype) if layer.w_score is None else layer.w_score.astype(dtype)
        total = sum_over(q, k, lambda a, b, c: w[c] * np.tanh(a + b), dtype, order)
        return dtype(1 if options.scale is None else options.scale) * (total + dtype(layer.b_score))
    return attention(score, query, key, value, options, dtype, order)


@dataclass
class MultiHead:
    """Weights and biases are pairs; a bias may be None."""
    heads: int
    key_heads: int
    query: tuple
    key: tuple
    value: tuple
    out: tuple


def multi_head(query, key, value, layer, options=Options(), dtype=np.float64, order=None):
    def split(x, weights, heads):
        projected = linear(x, *weights, dtype, order)
        return np.moveaxis(projected.reshape(*x.shape[:-1], heads, projected.shape[-1] // heads), -2, -3)
    with np.errstate(invalid="ignore", over="ignore"):
        q = split(query, layer.query, layer.heads)
        k, v = split(key, layer.key, layer.key_heads), split(value, layer.value, layer.key_heads)
    result = sdpa(q, k, v, options, dtype, order)
    merged = np.moveaxis(result.out, -3, -2)
    result.out = linear(merged.reshape(*merged.shape[:-2], layer.out[0].shape[1]), *layer.out, dtype, order)
    return result


def masked_softmax(scores, valid_lens=None, fill="zero", dtype=np.float64, order=None):
    shape = scores.shape
    # (B, H, Sq, Sk); the rows of (B, Sk) are the batch.
    x = scores.astype(dtype)
    x = x[:, None, None] if len(shape) == 2 else as_rank_4(x)
    kept = np.ones(x.shape, bool)
    if valid_lens is not None:
        kept &= np.arange(shape[-1]) < per_query(valid_lens, x.shape[0], x.shape[2])[:, None, :, None]
    x = np.where(kept, x, dtype(-1e6 if fill == "seed" else -np.inf))
    some = np.ones_like(kept) if fill == "seed" else kept.any(axis=3, keepdims=True)
    with np.errstate(invalid="ignore"):
        largest = np.where(some, np.max(x, axis=3, keepdims=True, initial=-np.inf), dtype(0))
        power = np.where(some, np.exp(x - largest), dtype(0))
    total = np.zeros((*x.shape[:3], 1), dtype)
    for j in terms(shape[-1], order):
        total += power[..., j, None]
    return (power / np.where(total == 0, dtype(1), total)).reshape(shape)
