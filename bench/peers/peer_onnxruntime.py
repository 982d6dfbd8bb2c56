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


def group_query_quantised(peers, problem, bits):
    """GroupQueryAttention over caches of 8 or 4 bits with a scale for each channel, two channels of 4 bits to a byte."""
    q, k, v = (np.asarray(x, np.float32) for x in problem.arrays)
    most = {8: 127, 4: 7}[bits]

    def quantised(x):
        scale = np.abs(x).max(axis=(0, 2), keepdims=True) / most  # (1, Hkv, 1, D)
        codes = np.clip(np.rint(x / scale), -most - (bits == 4), most).astype(np.int8)
        if bits == 4:
            codes = (codes + 8).astype(np.uint8)
            codes = codes[..., 0::2] | codes[..., 1::2] << 4
        return aligned(codes), aligned(scale.astype(np.float32))

    caches, scales = zip(*map(quantised, (k, v)))
    last = lambda x: rows(x[:, :, -problem.queries :])
    arrays = {"q": rows(q), "k": last(k), "v": last(v), "past_k": caches[0], "past_v": caches[1],
              "last": np.full(problem.batch, problem.keys - 1, np.int32), "total": np.array(problem.keys, np.int32),
              "k_scale": scales[0], "v_scale": scales[1]}
    names = [*list(arrays)[:7], "", "", "", "", "", "k_scale", "v_scale"]
    outputs = {"out": zeros_like(arrays["q"]), "new_k": caches[0], "new_v": caches[1]}
    attributes = {"num_heads": problem.heads, "kv_num_heads": problem.key_heads, "k_quant_type": "PER_CHANNEL",
                  "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": bits}
    node = "com.microsoft:GroupQueryAttention", names, list(outputs), attributes
    call = peers.lazy(lambda: peers.graph([node], arrays, outputs, opset=17))
    return lambda: heads(call(), problem.heads)
