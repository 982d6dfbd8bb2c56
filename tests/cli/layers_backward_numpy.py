# SPDX-License-Identifier: MIT
"""Gradients of layers in NumPy: the chain rule, from the definitions and from nothing else. Steps and orders of sums are as in
attention_numpy.py."""
from dataclasses import dataclass

import numpy as np
from attention_numpy import Options, as_rank_4, linear, masked_softmax, per_query, sdpa, stored, terms
from backward_numpy import product, sdpa_backward, transposed


@dataclass
class LinearGradients:
    x: np.ndarray
    weight: np.ndarray
    bias: np.ndarray


def linear_backward(x, weight, grad_out, dtype=np.float64, order=None, parts=np.positive):
    """A row of grad_out that is all zeros takes no part in the gradient of the weight."""
    x, weight, grad = (parts(a.astype(dtype)) for a in (x, weight, grad_out))
    by_x = np.zeros(x.shape, dtype)
    for n in terms(weight.shape[0], order):
        by_x += grad[..., n, None] * weight[n]
    rows = grad.reshape(-1, grad.shape[-1])
    used = (rows != 0).any(axis=1)
    total = np.zeros(grad.shape[-1], dtype)
    for m in terms(rows.shape[0], order):
        total += rows[m]
    by_weight = product(transposed(rows[used]), x.reshape(-1, x.shape[-1])[used], dtype, order)
    return LinearGradients(stored(by_x), stored(by_weight), stored(total))


def masked_softmax_backward(scores, grad_out, valid_lens=None, fill="zero", dtype=np.float64, order=None, parts=np.positive):
    weight, grad = masked_softmax(scores, valid_lens, fill, dtype, order), grad_out.astype(dtype)
    product_of = np.where(weight != 0, parts(weight * grad), dtype(0))
    total = np.zeros((*weight.shape[:-1], 1), dtype)
    for j in terms(weight.shape[-1], order):
        total[..., 0] += product_of[..., j]
    by_scores = product_of + parts(-weight * total)
    kept = np.ones(weight.shape, bool)
    if valid_lens is not None:
        shape = scores.shape
        x = kept[:, None, None] if len(shape) == 2 else as_rank_4(kept)
        lens = per_query(valid_lens, x.shape[0], x.shape[2])[:, None, :, None]
        kept = np.broadcast_to(np.arange(shape[-1]) < lens, x.shape).reshape(shape)
    return np.where(kept & (weight != 0), by_scores, dtype(0))


@dataclass
class MultiHeadGradients:
    """Weights and biases are w_query ... b_out, the inputs query, key, value; options as in backward_numpy.Gradients."""
    query: np.ndarray
    key: np.ndarray
    value: np.ndarray
    w_query: np.ndarray
    w_key: np.ndarray
    w_value: np.ndarray
    w_out: np.ndarray
    b_query: np.ndarray
    b_key: np.ndarray
    b_value: np.ndarray
    b_out: np.ndarray
    bias: np.ndarray | None
    slopes: np.ndarray | None
    sinks: np.ndarray | None


def multi_head_backward(query, key, value, grad_out, layer, options=Options(), dtype=np.float64, order=None, parts=np.positive):
    def split(projected, heads):
        return np.moveaxis(projected.reshape(*projected.shape[:-1], heads, projected.shape[-1] // heads), -2, -3)

    def joined(a):
        a = np.moveaxis(a, -3, -2)
        return a.reshape(*a.shape[:-2], -1)
    q = split(linear(query, *layer.query, dtype, order), layer.heads)
    k = split(linear(key, *layer.key, dtype, order), layer.key_heads)
    v = split(linear(value, *layer.value, dtype, order), layer.key_heads)
    heads_out = joined(sdpa(q, k, v, options, dtype, order).out)
    of_out = linear_backward(heads_out, layer.out[0], grad_out, dtype, order)
    of_attention = sdpa_backward(q, k, v, split(of_out.x, layer.heads), None, options, dtype, order, parts)
    of_query = linear_backward(query, layer.query[0], joined(of_attention.query), dtype, order, parts)
    of_key = linear_backward(key, layer.key[0], joined(of_attention.key), dtype, order, parts)
    of_value = linear_backward(value, layer.value[0], joined(of_attention.value), dtype, order, parts)
    return MultiHeadGradients(of_query.x, of_key.x, of_value.x, of_query.weight, of_key.weight, of_value.weight, of_out.weight,
                              of_query.bias, of_key.bias, of_value.bias, of_out.bias, of_attention.bias, of_attention.slopes,
                              of_attention.sinks)
