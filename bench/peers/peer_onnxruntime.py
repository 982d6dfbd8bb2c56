# SPDX-License-Identifier: MIT
"""onnxruntime's attention of a Problem: ONNX's Attention, and MultiHeadAttention and GroupQueryAttention of its own. Its third,
com.microsoft's Attention, projects its input: cells_layers.py measures it."""

import numpy as np

from arrays import aligned, zeros, zeros_like
from attention_problem import dense


def programs(peers, problem):
    """Operators that are there for the type; an operator that runs nothing says so when it is called."""
    if problem.dtype == "bf16":
        return {}
    made = {"onnxruntime Attention": standard(peers, problem)}
    if problem.dtype == "f32":
        if not problem.grouped and (not problem.causal or problem.square):
            made["onnxruntime MultiHeadAttention"] = multi_head(peers, problem)
        elif problem.grouped and problem.queries == 1:
            made["onnxruntime MultiHeadAttention, group as queries"] = multi_head(peers, problem, joined=True)
    if not problem.value_dim and (problem.causal or problem.queries == 1 and not problem.lengths):
        made["onnxruntime GroupQueryAttention"] = group_query(peers, problem)
    return made


def rows(x):
    """(B, H, S, D) as (B, S, H D)"""
    return np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(x.shape[0], x.shape[2], -1)


def heads(x, count):
    """The way back, a view."""
    return x.reshape(*x.shape[:2], count, -1).transpose(0, 2, 1, 3)


def standard(peers, problem):
    """Opset 23, which knows lengths as a mask."""
    arrays = dict(zip("qkv", problem.arrays))
    attributes = {"is_causal": int(problem.causal and problem.square and not problem.window)}
    if problem.mask is not None and not attributes["is_causal"]:
        arrays["m"] = dense(problem.mask, problem.queries, problem.keys)
    node = "Attention", list(arrays), ["out"], attributes
    return peers.lazy(lambda: peers.graph([node], arrays, problem.empty()))


def multi_head(peers, problem, joined=False):
    q, k, v = problem.arrays
    if joined:
        q = q.reshape(problem.batch, problem.key_heads, -1, problem.dim)
    arrays = {"q": rows(q), "k": rows(k), "v": rows(v)}
    names = ["q", "k", "v"]
    if problem.lengths:
        arrays["lens"] = problem.valid_lens
        names += ["", "lens"]
    elif problem.window:
        arrays["bias"] = np.where(problem.mask, np.float32(0), np.float32(-1e30))[None, None]
        names += ["", "", "bias"]
    attributes = {"num_heads": q.shape[1], "unidirectional": int(problem.causal and not problem.window)}
    node = "com.microsoft:MultiHeadAttention", names, ["out"], attributes
    out = zeros((problem.batch, q.shape[2], q.shape[1] * problem.out_dim), q.dtype)
    call = peers.lazy(lambda: peers.graph([node], arrays, out, opset=17))
    shape = problem.batch, problem.heads, problem.queries, problem.out_dim
    return lambda: heads(call(), q.shape[1]).reshape(shape) if joined else heads(call(), q.shape[1])


def group_query(peers, problem):
    """Causal by definition. The last `queries` rows of the caches are given as the rows that it appends to them, in place."""
    q, k, v = problem.arrays
    caches = {"past_k": aligned(k.copy()), "past_v": aligned(v.copy())}
    arrays = {"q": rows(q), "k": rows(k[:, :, -problem.queries :]), "v": rows(v[:, :, -problem.queries :]), **caches,
              "last": np.full(problem.batch, problem.keys - 1, np.int32), "total": np.array(problem.keys, np.int32)}
    outputs = {"out": zeros_like(arrays["q"]), "new_k": caches["past_k"], "new_v": caches["past_v"]}
    attributes = {"num_heads": problem.heads, "kv_num_heads": problem.key_heads}
    if problem.window:
        attributes["local_window_size"] = problem.window
    node = "com.microsoft:GroupQueryAttention", list(arrays), list(outputs), attributes
    call = peers.lazy(lambda: peers.graph([node], arrays, outputs, opset=17))
    return lambda: heads(call(), problem.heads)
