# SPDX-License-Identifier: MIT
"""The definitions of the results in NumPy, in the type of `real`: float64 is the reference, float32 the plain computation."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention(real, query, key, value, *, score="dot_product", score_weight=None, softcap=0, bias=None, slopes=None, mask=None,
              kept=None, dropout=0, weights=False, stored=None):
    """kept: which weights dropout keeps. With weights, (out, weights). stored: the type of 16 bits to which the weights before
    the product and the result are rounded."""
    q, k, v = (np.asarray(t, real) for t in (query, key, value))
    if score == "cosine":
        q, k = (t / np.sqrt((t * t).sum(-1, keepdims=True)) for t in (q, k))
    if score == "general":
        q = q @ np.asarray(score_weight, real)
    x = q @ np.swapaxes(k, -1, -2)
    if score == "gaussian":
        x -= real(0.5) * ((q * q).sum(-1)[..., :, None] + (k * k).sum(-1)[..., None, :])
    if score == "dot_product":
        x *= real(1 / np.sqrt(q.shape[-1]))
    if softcap:
        x = real(softcap) * np.tanh(x / real(softcap))
    if bias is not None:
        x = x + np.asarray(bias, real)
    if slopes is not None:
        i, j = np.ogrid[: x.shape[-2], : x.shape[-1]]
        x = x - np.asarray(slopes, real)[:, None, None] * np.abs(i + x.shape[-1] - x.shape[-2] - j).astype(real)
    if mask is not None:
        x = np.where(mask, x, real(-np.inf))
    p = softmax(x)
    dropped = np.where(kept, p / real(1 - dropout), real(0)) if kept is not None else p
    if stored:
        return (dropped.astype(stored).astype(real) @ v).astype(stored).astype(real)
    return (dropped @ v, p) if weights else dropped @ v


def attention_backward(real, query, key, value, grad_out, *, bias=None, mask=None, kept=None, dropout=0, stored=None):
    """Gradients by query, key, value and, if there is one, by the bias. query (..., G, Sq, Dk), a group of heads that share key
    and value (..., 1, Sk, D). stored: the type of 16 bits that factors of products and results are rounded to."""
    q, k, v, g = (np.asarray(t, real) for t in (query, key, value, grad_out))
    rounded = (lambda t: t.astype(stored).astype(real)) if stored else lambda t: t
    turned = lambda t: np.swapaxes(t, -1, -2)
    scale = real(1 / np.sqrt(q.shape[-1]))
    x = q @ turned(k) * scale
    if bias is not None:
        x = x + np.asarray(bias, real)
    if mask is not None:
        x = np.where(mask, x, real(-np.inf))
    p = softmax(x)
    drop = (lambda t: np.where(kept, t / real(1 - dropout), real(0))) if kept is not None else lambda t: t
    dropped = rounded(drop(p))
    delta = (g * rounded(dropped @ v)).sum(-1, keepdims=True)
    by_score = p * (drop(g @ turned(v)) - delta)
    factor = rounded(by_score)
    grad_key, grad_value = ((turned(a) @ b).sum(-3, keepdims=True) for a, b in ((factor, q), (dropped, g)))
    return tuple(map(rounded, (factor @ k * scale, grad_key * scale, grad_value))) + (() if bias is None else (by_score,))


def additive(real, query, key, value, w_score, *, valid_lens=None, w_query=None):
    """(B, S, h), one query at a time: nothing of size (B, Sq, Sk, h)."""
    q, k, v, w = (np.asarray(t, real) for t in (query, key, value, w_score))
    if w_query is not None:
        q = q @ np.asarray(w_query, real).T
    x = np.stack([np.tanh(q[:, i, None, :] + k) @ w for i in range(q.shape[1])], 1)
    if valid_lens is not None:
        x = np.where(np.arange(x.shape[-1]) < valid_lens[:, None, None], x, real(-np.inf))
    return softmax(x) @ v


def additive_backward(real, query, key, value, w_score, grad_out):
    """Gradients by query, key, value and w_score, one query at a time."""
    q, k, v, w, g = (np.asarray(t, real) for t in (query, key, value, w_score, grad_out))
    grad_query, grad_key, grad_value, grad_score = (np.zeros_like(t) for t in (q, k, v, w))
    for i in range(q.shape[1]):
        t = np.tanh(q[:, i, None, :] + k)
        p = softmax(t @ w)
        by_weight = (v @ g[:, i, :, None])[..., 0]
        by_score = p * (by_weight - (p * by_weight).sum(-1, keepdims=True))
        grad_score += (by_score[..., None] * t).sum((0, 1))
        moved = by_score[..., None] * (w * (1 - t * t))
        grad_query[:, i] = moved.sum(1)
        grad_key += moved
        grad_value += p[..., None] * g[:, i, None, :]
    return grad_query, grad_key, grad_value, grad_score


def linear(real, x, weight, bias):
    return np.asarray(x, real) @ np.asarray(weight, real).T + np.asarray(bias, real)


def multi_head(real, x, heads, packed, packed_bias, w_out, out_bias):
    batch, length, width = x.shape
    projected = linear(real, x, packed, packed_bias).reshape(batch, length, 3, heads, width // heads)
    q, k, v = projected.transpose(2, 0, 3, 1, 4)
    joined = attention(real, q, k, v).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return linear(real, joined, w_out, out_bias)


def masked_softmax(real, scores, valid_lens):
    x = np.asarray(scores, real)
    if valid_lens is not None:
        x = np.where(np.arange(x.shape[-1]) < valid_lens.reshape(-1, *[1] * (x.ndim - 1)), x, real(-np.inf))
    return softmax(x)
