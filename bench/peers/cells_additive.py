# SPDX-License-Identifier: MIT
"""Additive attention, counted in tanh: one a (query, key, channel)."""

import numpy as np

import reference
from arrays import normal, zeros, zeros_like
from measure import Cell

# (B, Sq, Sk, h); values are of width h, too
SHAPES = {"B1 q128 k1024 h128": (1, 128, 1024, 128), "B8 q64 k64 h256": (8, 64, 64, 256),
          "decode B64 q1 k64 h256": (64, 1, 64, 256)}
TRAINED = ("B1 q128 k1024 h128", "B8 q64 k64 h256")


def training_name(name):
    return f"additive {name}, forward + backward"


def cells():
    """(name, function that makes the cell)"""
    for name, shape in SHAPES.items():
        yield f"additive {name}", lambda a, p, n, shape=shape: make(a, p, n, *shape)
    for name in TRAINED:
        yield training_name(name), lambda a, p, n, shape=SHAPES[name]: make_training(a, p, n, *shape)
    shape = SHAPES["decode B64 q1 k64 h256"]
    yield "additive decode B64 q1 k64 h256, lengths", lambda a, p, n: make(a, p, n, *shape, lengths=True)
    yield "additive decode B64 q1 k64 h256, W_q", lambda a, p, n: make(a, p, n, *shape, project=True)


def make(attune, peers, name, batch, queries, keys, width, lengths=False, project=False):
    random = np.random.default_rng(1)
    query, key, value = (normal(random, batch, length, width) for length in (queries, keys, keys))
    w_score = normal(random, width, scale=np.sqrt(width))
    lens = random.integers(1, keys + 1, batch, np.int32) if lengths else None
    w_query = normal(random, width, width, scale=np.sqrt(width)) if project else None
    given = {"valid_lens": lens} if lengths else {}
    programs = {"attune": attune.additive(query, key, value, w_score, zeros_like(query), w_query=w_query, **given)}
    if peers.torch:
        programs |= torch_programs(peers, query, key, value, w_score, lens, w_query)
    if peers.ort and not lengths:
        programs["onnxruntime composed"] = graph(peers, query, key, value, w_score, w_query)
    pairs = queries * int(lens.sum()) if lengths else batch * queries * keys
    return Cell(name, programs,
                lambda real: reference.additive(real, query, key, value, w_score, valid_lens=lens, w_query=w_query),
                work=pairs * width, unit="tanh",
                # runtime/include/attune/additive.h: 2e-6 for each tanh, twice that in a weight
                documented_error=4e-6 * float(np.abs(w_score).sum()))


def torch_programs(peers, query, key, value, w_score, lens, w_query):
    torch = peers.torch
    q, k, v, w, n, wq = peers.tensors(query, key, value, w_score, lens, w_query)

    def additive(q, k, v, w, n, wq):
        if wq is not None:
            q = q @ wq.T
        x = torch.tanh(q[:, :, None, :] + k[:, None, :, :]) @ w
        if n is not None:
            x = x.masked_fill(torch.arange(k.shape[1])[None, None, :] >= n[:, None, None], -1e6)
        return torch.softmax(x, -1) @ v

    compiled = peers.compiled(additive)
    return {"torch eager": lambda: additive(q, k, v, w, n, wq), "torch compiled": lambda: compiled(q, k, v, w, n, wq)}


def make_training(attune, peers, name, batch, queries, keys, width):
    random = np.random.default_rng(1)
    inputs = *(normal(random, batch, n, width) for n in (queries, keys, keys)), normal(random, width, scale=np.sqrt(width))
    grad_out = normal(random, batch, queries, width)
    out, lse = zeros_like(grad_out), zeros((batch, queries))
    forward = attune.additive(*inputs, out, lse=lse)
    backward = attune.additive_backward(*inputs, out, lse, grad_out, tuple(map(zeros_like, inputs)))
    programs = {"attune": lambda: (forward(), backward())[1]}
    if peers.torch:
        programs |= torch_training(peers, inputs, grad_out)
    return Cell(name, programs, lambda real: reference.additive_backward(real, *inputs, grad_out),
                work=2 * batch * queries * keys * width, unit="tanh", wanted=5.0,
                documented_error=4e-6 * float(np.abs(inputs[3]).sum()),
                note="Gradients by query, key, value and w_score. A tanh is counted twice, once in each direction")


def torch_training(peers, inputs, grad_out):
    torch = peers.torch
    given = [x.requires_grad_() for x in peers.tensors(*inputs)]
    (by_out,) = peers.tensors(grad_out)

    def additive(q, k, v, w):
        return torch.softmax(torch.tanh(q[:, :, None, :] + k[:, None, :, :]) @ w, -1) @ v

    def step(function):
        def call():
            with torch.enable_grad():
                out = function(*given)
            return torch.autograd.grad(out, given, by_out)

        return call

    return {"torch eager": step(additive), "torch compiled": step(peers.compiled(additive))}


def graph(peers, query, key, value, w_score, w_query):
    nodes = [("Unsqueeze", ["projected", "two"], ["q4"], {}), ("Unsqueeze", ["key", "one"], ["k4"], {}),
             ("Add", ["q4", "k4"], ["sum"], {}), ("Tanh", ["sum"], ["t"], {}), ("MatMul", ["t", "w"], ["x"], {}),
             ("Softmax", ["x"], ["p"], {"axis": -1}), ("MatMul", ["p", "value"], ["out"], {})]
    constants = {"one": np.array([1], np.int64), "two": np.array([2], np.int64), "w": w_score}
    if w_query is None:
        nodes.insert(0, ("Identity", ["query"], ["projected"], {}))
    else:
        constants["w_query"] = np.ascontiguousarray(w_query.T)
        nodes.insert(0, ("MatMul", ["query", "w_query"], ["projected"], {}))
    return peers.graph(nodes, {"query": query, "key": key, "value": value}, zeros_like(query), constants)
