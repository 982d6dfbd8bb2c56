# SPDX-License-Identifier: MIT
"""Gradients of attention in NumPy: the chain rule, from the definitions and from nothing else. Steps and orders of sums are as
in attention_numpy.py."""
from dataclasses import dataclass

import numpy as np
from attention_numpy import (Options, as_rank_4, as_weights, kept_keys, linear, offsets, product_scores, sdpa, stored,
                             sum_over, terms)


@dataclass
class Gradients:
    """Each in the shape of what it is of; None without that."""
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    bias: np.ndarray | None = None
    slopes: np.ndarray | None = None
    sinks: np.ndarray | None = None
    score_weight: np.ndarray | None = None


def product(a, b, dtype, order):
    """(..., n, m) by (..., m, p); a 0 in `a` leaves its factor in `b` out, be it NaN or infinite."""
    out = np.zeros((*a.shape[:-1], b.shape[-1]), dtype)
    for m in terms(a.shape[-1], order):
        factor = a[..., :, m, None]
        out += np.where(factor != 0, factor * b[..., m, None, :], dtype(0))
    return out


def transposed(a):
    return np.swapaxes(a, -1, -2)


def sum_of(array, axes, dtype, order):
    for axis in sorted(axes, reverse=True):
        total = np.zeros((*array.shape[:axis], *array.shape[axis + 1:]), dtype)
        for n in terms(array.shape[axis], order):
            total = total + np.take(array, n, axis=axis)
        array = total
    return array


def reduced(array, shape, outer, dtype, order):
    """The sum of an array (B, Hq, Sq, Sk) over the dimensions that `shape` was broadcast over."""
    array = array.reshape(*outer, *array.shape[2:])
    full = (1,) * (array.ndim - len(shape)) + tuple(shape)
    return sum_of(array, [axis for axis in range(array.ndim) if full[axis] == 1], dtype, order).reshape(shape)


def sdpa_backward(query, key, value, grad_out, grad_lse=None, options=Options(), dtype=np.float64, order=None,
                  parts=np.positive):
    """parts: np.abs has what would cancel in the gradient of a score add up, for the size of its rounding errors."""
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        return gradients(query, key, value, grad_out, grad_lse, options, dtype, order, parts)


def gradients(query, key, value, grad_out, grad_lse, options, dtype, order, parts):
    outer, shapes = query.shape[:-2], (query.shape, key.shape, value.shape)
    forward = sdpa(query, key, value, options, dtype, order)
    q, k, v, do = (as_rank_4(a).astype(dtype) for a in (query, key, value, grad_out))
    batch, heads, queries, keys = *q.shape[:3], k.shape[2]
    key_heads, full = k.shape[1], (batch, heads, queries, keys)
    out, lse = forward.out.reshape(*q.shape[:3], v.shape[3]), forward.lse.reshape(q.shape[:3])
    x, capped, score, _ = (w.reshape(full) for w in forward.weights)
    kept = kept_keys(options, full, outer) & ~np.isneginf(score)
    some = kept.any(axis=3, keepdims=True)
    normal = ~np.isneginf(lse)[..., None]
    lse = np.where(normal, lse[..., None], dtype(0))

    weight = stored(np.where(kept, np.exp(score - lse), dtype(0)))
    factor = dtype(1)
    if options.dropout:
        factor = options.survivors.reshape(full) * dtype(0 if options.dropout == 1 else 1 / (1 - options.dropout))
    head = np.arange(heads) * key_heads // max(heads, 1)
    # Values that nobody sees hold anything.
    seen = lambda a: np.where(kept.any(axis=2)[..., None], a, dtype(0))
    v_of_head, k_of_head = seen(v[:, head]), seen(k[:, head])
    by_weight = stored(factor * sum_over(do, v_of_head, lambda a, b, c: parts(a * b), dtype, order))
    of_row = np.where(some, sum_of(parts(-do * out), [3], dtype, order)[..., None], dtype(0))
    if grad_lse is not None:
        of_row = of_row + parts(grad_lse.astype(dtype).reshape(*q.shape[:3], 1))
    by_score = stored(np.where(kept, weight * (by_weight + of_row), dtype(0)))
    cap = dtype(options.softcap)
    by_x = stored(np.where(kept, by_score * (1 - (capped / cap) ** 2), dtype(0))) if options.softcap else by_score

    # Sums over the query heads of a key head.
    of_key_heads = lambda a: sum_of(a.reshape(batch, key_heads, heads // max(key_heads, 1), *a.shape[2:]), [2], dtype, order)
    result = Gradients(None, None, None)
    result.value = stored(of_key_heads(product(transposed(stored(weight * factor)), do, dtype, order))).reshape(shapes[2])
    by_query, by_key = score_gradients(q, k_of_head, by_x, options, dtype, order)
    if options.score == "general":
        # by_key is by the projected key of a query head.
        by_projected = of_key_heads(by_key)
        w, given = options.score_weight.astype(dtype), np.where(seen_keys(kept, key_heads)[..., None], k, dtype(0))
        total = np.zeros((*k.shape[:3], k.shape[3]), dtype)
        for n in terms(w.shape[0], order):
            total += by_projected[..., n, None] * w[n]
        flat = lambda a: a.reshape(-1, a.shape[-1])
        result.score_weight = stored(product(transposed(flat(by_projected)), flat(given), dtype, order))
        result.key = stored(total).reshape(shapes[1])
    else:
        result.key = stored(of_key_heads(by_key)).reshape(shapes[1])
    result.query = stored(by_query).reshape(shapes[0])
    if options.bias is not None:
        result.bias = stored(reduced(by_score, options.bias.shape, outer, dtype, order))
    if options.alibi is not None:
        off = offsets(options, batch, 0 if options.causal == "top-left" else keys - queries)
        distance = np.abs(np.arange(queries)[None, :, None] + off - np.arange(keys)[None, None, :]).astype(dtype)
        slopes = -sum_of(by_score * distance[:, None], [2, 3], dtype, order)
        per_head = isinstance(options.alibi, str) or options.alibi.ndim == 1
        result.slopes = sum_of(slopes, [0], dtype, order) if per_head else slopes.reshape(options.alibi.shape)
    if options.sinks is not None:
        weight_of_sink = np.exp(options.sinks.astype(dtype)[None, :, None, None] - lse)
        result.sinks = sum_of((weight_of_sink * of_row)[..., 0], [0, 2], dtype, order)
    return result


def seen_keys(kept, key_heads):
    batch, heads, _, keys = kept.shape
    return kept.any(axis=2).reshape(batch, key_heads, heads // max(key_heads, 1), keys).any(axis=2)


def score_gradients(q, k, by_x, options, dtype, order):
    """By query, and by the key of each query head (projected, for the general score)."""
    width = q.shape[-1]
    default = 1 / np.sqrt(width) if options.score == "dot" else 1
    by_x = dtype(default if options.scale is None else options.scale) * by_x
    if options.score == "general":
        k = linear(k, options.score_weight, None, dtype, order)
    if options.score == "gaussian":
        total = lambda a, axis: sum_of(a, [axis], dtype, order)[..., None]
        return (product(by_x, k, dtype, order) - total(by_x, 3) * q,
                product(transposed(by_x), q, dtype, order) - total(by_x, 2) * k)
    if options.score != "cosine":
        return product(by_x, k, dtype, order), product(transposed(by_x), q, dtype, order)
    square = lambda a: sum((a[..., c] * a[..., c] for c in terms(width, order)), np.zeros(a.shape[:-1], dtype))
    q_square, k_square = square(q)[..., :, None], square(k)[..., None, :]
    some = (q_square != 0) & (k_square != 0)
    norms = np.where(some, np.sqrt(q_square) * np.sqrt(k_square), dtype(1))
    cosine = np.where(some, sum_over(q, k, lambda a, b, c: a * b, dtype, order) / norms, dtype(0))
    by_dot, by_norms = np.where(some, by_x / norms, dtype(0)), np.where(some, by_x * cosine, dtype(0))
    total = lambda a, axis: sum_of(a, [axis], dtype, order)[..., None]
    divided = lambda a, b: a / np.where(b == 0, dtype(1), b)
    return (product(by_dot, k, dtype, order) - divided(total(by_norms, 3) * q, q_square),
            product(transposed(by_dot), q, dtype, order) - divided(total(by_norms, 2) * k, transposed(k_square)))
