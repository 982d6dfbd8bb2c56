# SPDX-License-Identifier: MIT
"""Layers and plain operators: multi-head attention, linear, batch_dot, masked_softmax."""

import numpy as np

import reference
from arrays import aligned, normal, zeros, zeros_like
from attention_problem import element_type
from measure import Cell

MULTI_HEAD = (4, 512, 512, 8)  # (B, S, E, H)


def cells():
    """(name, function that makes the cell)"""
    yield "multi-head B4 S512 E512 H8", make_multi_head
    yield "multi-head B4 S512 E512 H8, averaged weights", lambda a, p, n: make_multi_head(a, p, n, weights=True)
    all_kinds, unpacked, f32 = ("", "packed", "bf16", "packed, bf16"), ("", "bf16"), ("",)
    for rows, inputs, outputs, kinds in ((2048, 512, 512, all_kinds), (512, 512, 2048, all_kinds), (512, 2048, 512, all_kinds),
                                         (1, 4096, 4096, all_kinds), (4, 4096, 4096, unpacked), (8, 4096, 4096, unpacked),
                                         (12, 4096, 4096, unpacked), (16, 4096, 4096, unpacked), (4, 512, 512, unpacked),
                                         (333, 257, 129, f32)):
        for kind in kinds:
            shape = rows, inputs, outputs, kind
            yield f"linear {rows}x{inputs}x{outputs}{kind and ', '}{kind}", lambda a, p, n, s=shape: make_linear(a, p, n, *s)
    for batch, n, m, width in ((96, 128, 128, 64), (8, 1024, 1024, 64), (96, 197, 64, 197), (16, 1, 4096, 128),
                               (32, 1, 128, 1000), (8, 1, 1000, 1000), (32, 2, 128, 1000), (32, 4, 128, 1000), (64, 4, 64, 77)):
        yield f"batch_dot {batch}x{n}x{m}x{width}", lambda a, p, name, s=(batch, n, m, width): make_batch_dot(a, p, name, *s)
    for batch, queries, keys, lengths in ((96, 128, 128, True), (8, 1024, 1024, True), (8, 1024, 1024, False)):
        name = f"masked_softmax {batch}x{queries}x{keys}" + (", lengths" if lengths else "")
        yield name, lambda a, p, n, s=(batch, queries, keys, lengths): make_masked_softmax(a, p, n, *s)
    yield "masked_softmax 8x1024x1024, in place", lambda a, p, n: make_softmax_in_place(a, p, n, 8, 1024, 1024)


def make_multi_head(attune, peers, name, weights=False):
    batch, length, width, heads = MULTI_HEAD
    random = np.random.default_rng(1)
    x = normal(random, batch, length, width)
    # Packed as nn.MultiheadAttention's in_proj_weight is.
    packed, w_out = (normal(random, n * width, width, scale=np.sqrt(width)) for n in (3, 1))
    packed_bias, out_bias = normal(random, 3 * width), normal(random, width)
    averaged = {"weights": zeros((batch, length, length))} if weights else {}
    programs = {"attune": attune.multi_head(x, heads, packed, packed_bias, w_out, out_bias, zeros_like(x), **averaged)}
    if peers.torch:
        torch = peers.torch
        layer = torch.nn.MultiheadAttention(width, heads, batch_first=True).eval()
        layer.load_state_dict(dict(zip(("in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"),
                                       peers.tensors(packed, packed_bias, w_out, out_bias))))
        (tx,) = peers.tensors(x)
        programs["torch"] = lambda: layer(tx, tx, tx, need_weights=weights)[0]
    if peers.ort and not weights:
        programs |= onnx_multi_head(peers, x, heads, packed, packed_bias, w_out, out_bias)
    flops = 8.0 * batch * length * width * width + 4.0 * batch * length * length * width
    truth = lambda real: reference.multi_head(real, x, heads, packed, packed_bias, w_out, out_bias)
    return Cell(name, programs, truth, work=flops)


def onnx_multi_head(peers, x, heads, packed, packed_bias, w_out, out_bias):
    """onnxruntime's two layers: Attention with packed weights, and MultiHeadAttention behind three products."""
    width = x.shape[-1]
    turned = lambda w: np.ascontiguousarray(w.T)
    constants = {"w_out": turned(w_out), "out_bias": out_bias, "bias": packed_bias}
    output = [("MatMul", ["joined", "w_out"], ["y"], {}), ("Add", ["y", "out_bias"], ["out"], {})]
    attention = [("com.microsoft:Attention", ["x", "w", "bias"], ["joined"], {"num_heads": heads})]
    names = ("wq", "wk", "wv")
    split = [("MatMul", ["x", w], ["p" + w], {}) for w in names]
    split.append(("com.microsoft:MultiHeadAttention", ["pwq", "pwk", "pwv", "bias"], ["joined"], {"num_heads": heads}))
    parts = {w: turned(packed[n * width : (n + 1) * width]) for n, w in enumerate(names)}
    call = lambda nodes, more: peers.graph(nodes + output, {"x": x}, zeros_like(x), constants | more, opset=17)
    return {"onnxruntime Attention": call(attention, {"w": turned(packed)}),
            "onnxruntime MultiHeadAttention": call(split, parts)}


def make_linear(attune, peers, name, rows, inputs, outputs, kind):
    """Each on the same terms: a weight that every call takes as it is, or one that was packed beforehand by whoever can."""
    packed, of_type = kind.startswith("packed"), "bf16" if kind.endswith("bf16") else "f32"
    dtype = element_type(of_type)
    if dtype is None:
        raise ImportError("the package ml_dtypes, for NumPy's bfloat16")
    random = np.random.default_rng(1)
    x, bias = normal(random, rows, inputs, dtype=dtype), normal(random, outputs, dtype=dtype)
    weight = normal(random, outputs, inputs, scale=np.sqrt(inputs), dtype=dtype)
    out = lambda: zeros((rows, outputs), dtype)
    programs = {"attune": attune.linear(x, attune.packed_weight(weight) if packed else weight, bias, out())}
    bound = "plain read" if rows == 1 else ""
    if bound:
        programs[bound] = attune.read(aligned(weight.copy()), bias)
    if peers.torch and not packed:
        given = peers.tensors(x, weight, bias)
        programs["torch"] = lambda: peers.torch.nn.functional.linear(*given)
    if peers.torch and packed:
        programs |= torch_packed(peers, rows, *peers.tensors(x, weight, bias))
    if peers.ort and of_type == "f32":
        weights = {"w": weight, "b": bias}
        node = ("Gemm", ["x", "w", "b"], ["out"], {"transB": 1})
        programs["onnxruntime"] = (peers.graph([node], {"x": x}, out(), weights) if packed
                                   else peers.graph([node], {"x": x} | weights, out()))
    return Cell(name, programs, lambda real: reference.linear(real, x, weight, bias), work=2.0 * rows * inputs * outputs,
                own=(bound,) if bound else (), bound=bound, peak=attune.peak_of(of_type),
                epsilon=2.0**-7 if of_type == "bf16" else float(np.finfo(np.float32).eps) * 8,
                note="The weight is packed beforehand by all: to onnxruntime it is a constant of the graph" if packed else
                     "The weight is an argument of every call to all: to onnxruntime an input of the graph")


def torch_packed(peers, rows, x, weight, bias):
    """The operators of this build by which PyTorch's frozen graphs take packed weights."""
    made, ops = {}, peers.torch.ops
    if hasattr(ops.mkldnn, "_reorder_linear_weight"):
        onednn = ops.mkldnn._reorder_linear_weight(weight, rows)
        made["torch oneDNN"] = lambda: ops.mkldnn._linear_pointwise(x, onednn, bias, "none", [], "")
    if hasattr(ops.mkl, "_mkl_reorder_linear_weight") and x.dtype == peers.torch.float32:
        mkl = ops.mkl._mkl_reorder_linear_weight(weight, rows)
        made["torch MKL"] = lambda: ops.mkl._mkl_linear(x, mkl, weight, bias, rows)
    return made


def make_batch_dot(attune, peers, name, batch, n, m, width):
    random = np.random.default_rng(1)
    a, x = normal(random, batch, n, m), normal(random, batch, m, width)
    out = lambda: zeros((batch, n, width))
    programs = {"attune": attune.batch_dot(a, x, out())}
    if peers.torch:
        given = peers.tensors(a, x)
        programs["torch"] = lambda: peers.torch.bmm(*given)
    if peers.ort:
        programs["onnxruntime"] = peers.graph([("MatMul", ["a", "x"], ["out"], {})], {"a": a, "x": x}, out())
    return Cell(name, programs, lambda real: np.asarray(a, real) @ np.asarray(x, real), work=2.0 * batch * n * m * width)


def make_masked_softmax(attune, peers, name, batch, queries, keys, lengths):
    random = np.random.default_rng(1)
    scores = normal(random, batch, queries, keys)
    lens = random.integers(1, keys + 1, batch, np.int32) if lengths else None
    out = zeros_like(scores)
    programs = {"attune": attune.masked_softmax(scores, lens, out), "one write": attune.write(zeros_like(scores))}
    if peers.torch:
        torch = peers.torch
        x, n = peers.tensors(scores, lens)

        def masked_softmax(x, n):
            if n is not None:
                x = x.masked_fill(torch.arange(x.shape[-1])[None, None, :] >= n[:, None, None], -1e6)
            return torch.softmax(x, -1)

        compiled = peers.compiled(masked_softmax)
        programs |= {"torch composed": lambda: masked_softmax(x, n), "torch compiled": lambda: compiled(x, n)}
    if peers.ort and not lengths:
        programs["onnxruntime"] = peers.graph([("Softmax", ["x"], ["out"], {"axis": -1})], {"x": scores}, zeros_like(scores))
    return Cell(name, programs, lambda real: reference.masked_softmax(real, scores, lens), work=2.0 * scores.nbytes, unit="B",
                own=("one write",))


def make_softmax_in_place(attune, peers, name, *shape):
    """Each program over memory of its own, which the next call takes as scores again: the time does not depend on them."""
    scores = normal(np.random.default_rng(1), *shape)
    copies = {label: aligned(scores.copy()) for label in ("attune", "torch", "onnxruntime")}
    programs = {"attune": attune.masked_softmax(copies["attune"], None, copies["attune"])}
    if peers.torch:
        (tensor,) = peers.tensors(copies["torch"])
        programs["torch"] = lambda: peers.torch.softmax(tensor, -1, out=tensor)
    if peers.ort:
        x = copies["onnxruntime"]
        programs["onnxruntime"] = peers.graph([("Softmax", ["x"], ["out"], {"axis": -1})], {"x": x}, x)
    return Cell(name, programs, work=2.0 * scores.nbytes, unit="B",
                note="Each over memory of its own. Results are those of the cell before, and not compared here")
