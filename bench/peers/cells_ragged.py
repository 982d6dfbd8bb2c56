# SPDX-License-Identifier: MIT
"""A batch of sequences of different lengths, each attending to itself: packed, as this library takes it, or as others can."""

import functools

import numpy as np

import peer_onnxruntime
import peer_openvino
import peer_torch
import reference
from arrays import normal, zeros, zeros_like
from attention_problem import Problem
from measure import Cell

SEQUENCES, LONGEST, HEADS, DIM = 64, 512, 4, 64
NAME = f"ragged {SEQUENCES} of 1 to {LONGEST}, {HEADS} heads of {DIM}"
DENSE = "attune, as many scores in equal lengths"


def cells():
    """(name, function that makes the cell)"""
    yield NAME, make


class Padded(Problem):
    """The same sequences as a batch with lengths, zeros behind them."""

    def __init__(self, lengths, packed):
        super().__init__(SEQUENCES, HEADS, HEADS, LONGEST, LONGEST, DIM, lengths=True)
        self.__dict__.update(valid_lens=lengths, arrays=tuple(self.padded(x) for x in packed))

    def padded(self, packed):
        out = zeros((SEQUENCES, HEADS, LONGEST, DIM))
        for row, x in zip(out, np.split(packed, np.cumsum(self.valid_lens)[:-1])):
            row[:, : len(x)] = x.swapaxes(0, 1)
        return out

    def packed(self, padded):
        return np.concatenate([x[:, :n].swapaxes(0, 1) for x, n in zip(np.asarray(padded), self.valid_lens)])


def make(attune, peers, name):
    random = np.random.default_rng(1)
    lengths = random.integers(1, LONGEST + 1, SEQUENCES, np.int32)
    packed = [normal(random, lengths.sum(), HEADS, DIM) for _ in range(3)]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    scores = int((lengths.astype(np.int64) ** 2).sum())
    equal = round((scores / SEQUENCES) ** 0.5)
    dense = Problem(SEQUENCES, HEADS, HEADS, equal, equal, DIM)
    programs = {"attune": attune.variable_length(*packed, offsets, zeros_like(packed[0])),
                DENSE: attune.sdpa(*dense.arrays, dense.empty())}
    problem = Padded(lengths, packed)
    others = {}
    if peers.torch:
        programs |= torch_programs(peers, packed, offsets)
        others |= peer_torch.programs(peers, problem, flex=False, math=False)
    if peers.ort:
        others |= peer_onnxruntime.programs(peers, problem)
    if peers.openvino:
        others |= peer_openvino.programs(peers, problem)
    programs |= {f"{peer}, padded": unpadded(call, problem) for peer, call in others.items()}
    return Cell(name, programs, functools.partial(truth, packed=packed, offsets=offsets), work=4.0 * HEADS * DIM * scores,
                works={DENSE: dense.flops}, own=(DENSE,), unchecked=(DENSE,),
                note="FLOPs are those of the scores that exist. Padded results are packed outside the time. PyTorch's jagged "
                     "tensors, which take ten times as long and more on CPUs, are left out")


def unpadded(call, problem):
    def answered():
        padded = call()
        return lambda: problem.packed(padded)

    return answered


def truth(real, packed, offsets):
    parts = []
    for first, last in zip(offsets, offsets[1:]):
        q, k, v = (x[first:last].swapaxes(0, 1) for x in packed)
        parts.append(reference.attention(real, q, k, v).swapaxes(0, 1))
    return np.concatenate(parts)


def torch_programs(peers, packed, offsets):
    torch = peers.torch
    sdpa = torch.nn.functional.scaled_dot_product_attention
    given = peers.tensors(*packed)
    sequences = [tuple(x[first:last].transpose(0, 1)[None] for x in given) for first, last in zip(offsets, offsets[1:])]
    starts = torch.from_numpy(offsets.astype(np.int64))
    from torch.nn.attention import flex_attention as flex

    document = torch.repeat_interleave(torch.arange(SEQUENCES), starts.diff())
    total = len(document)
    flat = [x.transpose(0, 1)[None] for x in given]

    def made():
        same = lambda b, h, i, j: document[i] == document[j]
        mask = flex.create_block_mask(same, None, None, total, total, device="cpu")
        compiled = peers.compiled(flex.flex_attention)
        return lambda: compiled(*flat, block_mask=mask)[0].transpose(0, 1)

    def each():
        parts = [sdpa(*sequence) for sequence in sequences]
        return lambda: torch.cat([x[0].transpose(0, 1) for x in parts])

    return {"torch flash, a call a sequence": each, "torch FlexAttention, documents": peers.lazy(made)}
