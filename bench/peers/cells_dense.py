# SPDX-License-Identifier: MIT
"""Attention as models call it, each shape dispatched, beside every library that computes it."""

import numpy as np

import peer_onnxruntime
import peer_openvino
import peer_torch
from attention_problem import Problem, element_type
from measure import Cell

READ, F32 = "plain read", "attune f32"
PREFILL = Problem(1, 8, 8, 1024, 1024, 64)
WIDE = Problem(1, 8, 8, 2048, 2048, 128)
BERT = Problem(8, 12, 12, 128, 128, 64, lengths=True)
VIT = Problem(8, 12, 12, 197, 197, 64)
# Keys that all heads share, of 512 channels, which are the values too, and 64 for positions; and the same where each head has
# its own.
LATENT = Problem(1, 128, 1, 1, 4096, 576, value_dim=512)
APART = Problem(1, 16, 16, 1, 4096, 192, "bf16", value_dim=128)
DECODE, LONG_DECODE = (Problem(1, 32, 8, 1, keys, 128) for keys in (4096, 32768))
# Head sizes, each beside a call of the neighbour in the same rounds.
NEIGHBOURS = {80: 64, 96: 128, 256: 128}


def variant(problem, **changes):
    return Problem(**{name: getattr(problem, name) for name in problem.__dataclass_fields__} | changes)


def problems():
    """(kind, problem)"""
    causal = [variant(p, causal=True) for p in (PREFILL, WIDE)]
    yield from (("prefill", p) for p in (PREFILL, WIDE, *causal, BERT, VIT))
    yield from (("prefill", variant(PREFILL, dim=dim)) for dim in NEIGHBOURS)
    yield "prefill", Problem(1, 8, 8, 4096, 4096, 64, causal=True, window=256)
    yield "prefill", Problem(1, 32, 8, 1024, 1024, 128, causal=True)
    yield "prefill", Problem(1, 8, 8, 33, 512, 64)
    yield "prefill", Problem(8, 8, 8, 20, 20, 64)
    yield "prefill", Problem(64, 4, 4, 49, 49, 32)
    yield "decode", DECODE
    yield "decode", LONG_DECODE
    yield from (("decode", variant(DECODE, queries=queries, causal=True)) for queries in (4, 8))
    yield "decode", Problem(1, 1, 1, 1, 32768, 128)
    yield "decode", Problem(16, 32, 8, 1, 1024, 128)
    yield "decode", Problem(1, 8, 8, 1, 64, 64)
    yield "decode", Problem(1, 8, 8, 4, 300, 72)
    yield "decode", Problem(1, 32, 8, 1, 4096, 72)
    yield "decode", Problem(1, 8, 8, 1, 4096, 72, "f16")
    yield "tiny", Problem(2, 1, 1, 1, 10, 2, lengths=True)
    yield "decode", Problem(1, 32, 32, 1, 4096, 96, "bf16")
    yield "decode", Problem(1, 16, 8, 1, 4096, 256, "bf16")
    yield from (("decode", p) for p in (LATENT, variant(LATENT, dtype="bf16"), APART))
    for dtype in ("bf16", "f16"):
        some = (PREFILL, WIDE, *causal, BERT, VIT) if dtype == "bf16" else (PREFILL,)
        yield from (("prefill", variant(p, dtype=dtype)) for p in some)
        yield from (("decode", variant(p, dtype=dtype)) for p in (DECODE, LONG_DECODE))
        yield "decode", variant(DECODE, queries=8, causal=True, dtype=dtype)


def cell_name(kind, problem):
    return f"{kind} {problem}"


def cells():
    """(name, function that makes the cell)"""
    for kind, problem in problems():
        yield cell_name(kind, problem), lambda a, p, n, kind=kind, problem=problem: make(a, p, n, kind, problem)


def ours(attune, problem):
    given = {"causal": problem.causal, "valid_lens": problem.valid_lens}
    if problem.window:
        given["left"] = problem.window - 1
    return attune.sdpa(*problem.arrays, problem.empty(), **given)


def make(attune, peers, name, kind, problem):
    if element_type(problem.dtype) is None:
        raise ImportError("the package ml_dtypes, for NumPy's bfloat16")
    problem = variant(problem)  # one whose arrays live no longer than the cell
    programs, own, works, limit = {"attune": ours(attune, problem)}, [], {}, {}
    if kind == "decode":
        programs[READ] = attune.read(*problem.arrays[1:])
        own.append(READ)
    neighbour = problem.dim in NEIGHBOURS and variant(problem, dim=NEIGHBOURS[problem.dim])
    for label, other in ((F32, variant(problem, dtype="f32") if kind == "prefill" and problem.dtype != "f32" else None),
                         (f"attune, head size {neighbour.dim}" if neighbour else "", neighbour)):
        if other:
            programs[label], works[label] = ours(attune, other), other.flops
            own.append(label)
    if peers.torch:
        # Compiling costs seconds: left out where nobody would.
        programs |= peer_torch.programs(peers, problem, flex=kind != "tiny" and problem.dtype != "f16")
    if peers.ort:
        programs |= peer_onnxruntime.programs(peers, problem)
    if peers.openvino:
        programs |= peer_openvino.programs(peers, problem)
        limit = {"openvino": 1.08} if kind == "prefill" and problem.dtype == "f32" else {}
    work, unit = problem.flops, "FLOP"
    if kind == "decode":
        work, unit = float(sum(x.nbytes for x in problem.arrays[1:])), "B"
    rows = problem.rows
    small = float(np.finfo(np.float32).eps) * 8 if problem.dtype == "f32" else {"bf16": 2.0**-7, "f16": 2.0**-10}[problem.dtype]
    return Cell(name, programs, problem.reference, work=work, unit=unit, works=works, own=tuple(own),
                unchecked=tuple(x for x in own), sample=lambda x: x[:, :, rows], epsilon=small,
                peak=peak(attune, kind, problem), bound=READ if kind == "decode" else "",
                wanted_of=limit, note=note(kind, problem))


def peak(attune, kind, problem):
    if kind == "tiny":
        return ""  # it is all calling
    return attune.peak_of(problem.dtype)


def note(kind, problem):
    words = []
    if kind == "decode":
        words.append("Bytes are those of keys and values, read once; a plain read of the same memory is the limit")
    if problem.dtype == "bf16":
        words.append("onnxruntime has no attention in bf16 on CPUs")
    return ". ".join(words)
