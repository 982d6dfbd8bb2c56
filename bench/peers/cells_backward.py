# SPDX-License-Identifier: MIT
"""Gradients of attention by query, key and value, also by its bias: the backward alone, or with the forward before it."""

import functools
from dataclasses import dataclass, replace

import numpy as np

import reference
from arrays import normal, zeros, zeros_like
from attention_problem import Problem, element_type
from cells_dense import F32
from measure import Cell

DROPOUT, SEED = 0.1, 2026


@dataclass(frozen=True)
class Backward(Problem):
    """bias: (1, heads, queries, keys), with a gradient. forward: timed, too."""

    bias: bool = False
    dropout: bool = False
    forward: bool = False

    def __str__(self):
        words = super().__str__() + (", bias (H,Sq,Sk)" if self.bias else "")
        return words + (f", dropout {DROPOUT}" if self.dropout else "")

    @functools.cached_property
    def arrays(self):
        """query, key, value, the gradient of out, and the bias if there is one"""
        random = np.random.default_rng(1)
        draw = lambda *shape: normal(random, self.batch, *shape, dtype=element_type(self.dtype))
        drawn = [draw(self.heads, self.queries, self.dim), draw(self.key_heads, self.keys, self.dim),
                 draw(self.key_heads, self.keys, self.out_dim), draw(self.heads, self.queries, self.out_dim)]
        drawn += [draw(self.heads, self.queries, self.keys)] if self.bias else []
        return tuple(drawn)

    @property
    def inputs(self):
        """Those whose gradients are wanted."""
        return *self.arrays[:3], *self.arrays[4:]

    @property
    def flops(self):
        """of five products: again the scores, the gradients of weights, values, queries and keys; and of the forward's two."""
        of_pair = 6.0 * self.dim + 4.0 * self.out_dim + (2.0 * (self.dim + self.out_dim) if self.forward else 0)
        return of_pair * self.scores

    def sample(self, x):
        """Two key heads and the query heads that share them, in full: (2, heads of a group, ...)."""
        entries, heads = [0, self.batch - 1], [0, self.key_heads - 1]
        return x.reshape(self.batch, self.key_heads, -1, *x.shape[2:])[entries, heads]

    def reference(self, real, kept=None):
        stored = element_type(self.dtype) if real is np.float32 and self.dtype != "f32" else None
        q, k, v, g, *bias = map(self.sample, self.arrays)
        mask = self.mask if self.mask is None or not self.lengths else self.mask[[0, -1]]
        dropped = {"kept": kept, "dropout": DROPOUT} if kept is not None else {}
        return reference.attention_backward(real, q, k, v, g, bias=bias[0] if bias else None, mask=mask, stored=stored,
                                            **dropped)


PREFILL = Backward(1, 8, 8, 1024, 1024, 64)
WIDE = Backward(1, 8, 8, 2048, 2048, 128, causal=True)
BERT = Backward(8, 12, 12, 128, 128, 64, lengths=True)
CAUSAL, BIASED, DROPPED = replace(PREFILL, causal=True), replace(PREFILL, bias=True), replace(PREFILL, dropout=True)
APART = replace(PREFILL, value_dim=96)
# How many times as long a peer should take at least.
WANTED = {PREFILL: 1.8, CAUSAL: 1.8, WIDE: 1.8, BERT: 1.6, DROPPED: 3.0, BIASED: 3.0, APART: 3.0}
OF_16_BITS = tuple(replace(p, dtype="bf16") for p in (PREFILL, WIDE)) + (replace(PREFILL, dtype="f16"),)
STEPS = tuple(replace(p, forward=True) for p in (PREFILL, CAUSAL, replace(CAUSAL, dropout=True), DROPPED, BIASED, APART))
GROUPED = Backward(1, 32, 8, 1024, 1024, 64, causal=True)


def cell_name(problem):
    return f"{'forward + backward' if problem.forward else 'backward'} {problem}"


def cells():
    """(name, function that makes the cell)"""
    for problem in (*WANTED, GROUPED, *OF_16_BITS, *STEPS):
        yield cell_name(problem), lambda a, p, n, problem=problem: make(a, p, n, problem)


def ours(attune, problem):
    q, k, v, grad_out, *bias = problem.arrays
    given = {"causal": problem.causal, "valid_lens": problem.valid_lens}
    given |= {"bias": bias[0]} if bias else {}
    given |= {"dropout": DROPOUT, "seed": SEED} if problem.dropout else {}
    out, lse = zeros_like(grad_out), zeros(grad_out.shape[:3])
    forward = attune.sdpa(q, k, v, out, lse=lse, **given)
    backward = attune.sdpa_backward(q, k, v, out, lse, grad_out, tuple(map(zeros_like, problem.inputs)), **given)
    forward()

    def both():
        forward()
        return backward()

    return both if problem.forward else backward


def make(attune, peers, name, problem):
    if element_type(problem.dtype) is None:
        raise ImportError("the package ml_dtypes, for NumPy's bfloat16")
    problem = replace(problem)  # one whose arrays live no longer than the cell
    programs, works = {"attune": ours(attune, problem)}, {}
    if problem.dtype != "f32":
        other = replace(problem, dtype="f32")
        programs[F32], works[F32] = ours(attune, other), other.flops
    if peers.torch:
        programs |= torch_programs(peers, problem)
    kept = None
    if problem.dropout:
        shape = problem.batch, problem.heads, problem.queries, problem.keys
        kept = problem.sample(attune.dropout_mask(DROPOUT, SEED, shape))
    small = float(np.finfo(np.float32).eps) * 8 if problem.dtype == "f32" else {"bf16": 2.0**-7, "f16": 2.0**-10}[problem.dtype]
    unchecked = (F32, *(n for n in programs if problem.dropout and n.startswith("torch")))
    return Cell(name, programs, lambda real: problem.reference(real, kept), work=problem.flops, works=works, own=(F32,),
                unchecked=unchecked, sample=problem.sample, epsilon=small,
                wanted=WANTED.get(replace(problem, forward=False), 1.25),
                peak=attune.peak_of(problem.dtype),
                note=f"{'Seven' if problem.forward else 'Five'} products are counted, whatever a program computes. onnxruntime "
                     "and OpenVINO have no backward, nor has FlexAttention on CPUs")


def torch_programs(peers, problem):
    """Autograd: of a graph that is kept, so that the backward alone is timed, or with the forward."""
    torch = peers.torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    inputs = [x.requires_grad_() for x in peers.tensors(*problem.inputs)]
    grad_out, mask = peers.tensors(problem.arrays[3], problem.mask)
    given = {"is_causal": True} if problem.causal else {"attn_mask": mask}
    if problem.bias:
        given = {"attn_mask": inputs[3]}
    given |= {"dropout_p": DROPOUT} if problem.dropout else {}

    def program(backend):
        def forward():
            with sdpa_kernel([backend]), torch.enable_grad():
                return torch.nn.functional.scaled_dot_product_attention(*inputs[:3], enable_gqa=problem.grouped, **given)

        if problem.forward:
            return lambda: torch.autograd.grad(forward(), inputs, grad_out)
        out = forward()
        return lambda: torch.autograd.grad(out, inputs, grad_out, retain_graph=True)

    # Flash has no backward of a mask, of dropout and of values of another width; it says so when it is called.
    flash = not (problem.bias or problem.dropout or problem.value_dim)
    backends = {"torch flash": SDPBackend.FLASH_ATTENTION} if flash else {}
    return {name: peers.lazy(lambda backend=backend: program(backend))
            for name, backend in (backends | {"torch math": SDPBackend.MATH}).items()}
