# SPDX-License-Identifier: MIT
"""Gradients of additive attention in NumPy: a score is a bias of no other score, whose gradient is that of the scores; the rest
is the chain rule through tanh and the projections."""
from dataclasses import dataclass

import numpy as np
from attention_numpy import linear, sum_over, terms
from backward_numpy import sdpa_backward, sum_of
from layers_backward_numpy import linear_backward


@dataclass
class AdditiveGradients:
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    w_query: np.ndarray | None
    w_key: np.ndarray | None
    b_query: np.ndarray | None
    b_key: np.ndarray | None
    w_score: np.ndarray
    sinks: np.ndarray | None


def additive_backward(query, key, value, grad_out, layer, options, grad_lse=None, dtype=np.float64, order=None,
                      parts=np.positive):
    """Gradients of additive attention of rank 4, without softcap and bias."""
    project = lambda x, w, b: x.astype(dtype) if w is None else linear(x, w, b, dtype, order)
    q, k = project(query, layer.w_query, layer.b_query), project(key, layer.w_key, layer.b_key)
    heads, key_heads = q.shape[1], k.shape[1]
    k_of_head = k[:, np.arange(heads) * key_heads // heads]
    w = np.ones(q.shape[-1], dtype) if layer.w_score is None else layer.w_score.astype(dtype)
    scale = dtype(1 if options.scale is None else options.scale)
    scores = scale * (sum_over(q, k_of_head, lambda a, b, c: w[c] * np.tanh(a + b), dtype, order) + dtype(layer.b_score))
    plain = type(options)(**{**options.__dict__, "bias": scores, "scale": 1})
    of = sdpa_backward(np.zeros((*q.shape[:3], 1), np.float32), np.zeros((*k.shape[:3], 1), np.float32), value, grad_out,
                       grad_lse, plain, dtype, order, parts)
    by_sum = scale * of.bias
    t = np.tanh(q[:, :, :, None] + k_of_head[:, :, None])
    slopes = parts(by_sum[..., None] * w * (1 - t * t))
    by_q = sum_of(slopes, [3], dtype, order)
    by_head = sum_of(slopes, [2], dtype, order)
    by_k = sum_of(by_head.reshape(q.shape[0], key_heads, heads // key_heads, *k.shape[2:]), [2], dtype, order)
    by_w = sum_of(parts(by_sum[..., None] * t), [0, 1, 2, 3], dtype, order)

    def back(x, weight, bias, grad):
        if weight is None:
            return grad, None, None
        through = linear_backward(x, weight, grad, dtype, order, parts)
        return through.x, through.weight, through.bias if bias is not None else None
    by_query, by_w_query, by_b_query = back(query, layer.w_query, layer.b_query, by_q)
    by_key, by_w_key, by_b_key = back(key, layer.w_key, layer.b_key, by_k)
    return AdditiveGradients(by_query, by_key, of.value, by_w_query, by_w_key, by_b_query, by_b_key, by_w, of.sinks)
