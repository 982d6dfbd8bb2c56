# SPDX-License-Identifier: MIT
"""Operations of torch.library: schemas, kernels for CPU and CUDA tensors, fake kernels, autograd.

A schema lists tensors first, then the numbers and words of the options; the tuples of names beside it are in that order. Memory
of 4-D results is (B, S, H, D), as that of PyTorch's own attention on CPUs.
"""
from __future__ import annotations

import functools

import torch
from torch._C._functorch import peek_interpreter_stack

from attune import _attune

LIBRARY = torch.library.Library("attune", "DEF")

# Options of the attention's score and masks, shared by the operations below.
SCORE_TENSORS = ("bias", "alibi_slopes", "sinks", "mask", "valid_lens", "offsets", "cache_lens", "seed")
SCORE_NUMBERS = ("scale", "softcap", "alibi", "causal", "offset", "left", "right", "dropout_p", "invariant")
# Numbers of dropout beside its probability, which follow the others: they may change from call to call without a new graph.
DROPOUT_NUMBERS = ("dropout_offset", "dropout_first_query", "dropout_first_key", "dropout_first_head", "dropout_heads")
SCORE_SCHEMA = (", ".join(f"Tensor? {name}" for name in SCORE_TENSORS) +
                 ", float? scale, float softcap, bool alibi, str causal, int? offset, int left, int right, float dropout_p,"
                 " bool invariant" + "".join(f", SymInt {name}" for name in DROPOUT_NUMBERS))


def define(name, schema, kernel, fake, setup=None, backward=None, no_gradient=None, gradient_on_cuda=True):
    """Adds attune::<name>. `no_gradient` says why there is none, for operations without `backward`."""
    LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.needs_exact_strides,))
    for key in ("CPU", "CUDA"):
        LIBRARY.impl(name, kernel, key)
    torch.library.register_fake(f"attune::{name}", fake, lib=LIBRARY)
    if backward is None and no_gradient is not None:
        def backward(ctx, *grads):
            raise NotImplementedError(f"attune: {no_gradient}")
    if backward is not None:
        torch.library.register_autograd(f"attune::{name}", backward, lib=LIBRARY,
                                        setup_context=setup if gradient_on_cuda else on_host_alone(name, setup))

    def refuse(info, in_dims, *args):
        raise NotImplementedError(f"attune.torch: {name} has no rule for vmap; put the mapped dimension into the batch")
    torch.library.register_vmap(f"attune::{name}", refuse, lib=LIBRARY)
    return getattr(torch.ops.attune, name).default


def on_host_alone(name, setup):
    """The setup of an operation whose gradients are computed on the host alone: refused in the forward pass, not in the middle
    of the backward one."""
    def checked(ctx, inputs, output):
        if inputs[0].is_cuda and any(ctx.needs_input_grad):
            raise NotImplementedError(f"attune.torch: {name} has no gradients on a CUDA device; call it within torch.no_grad()")
        setup(ctx, inputs, output)
    return checked


def dense_last(tensor):
    """The tensor, or a copy where the last stride is not 1: gradients come in any layout."""
    if tensor is None or tensor.dim() == 0 or tensor.shape[-1] <= 1 or tensor.stride(-1) == 1:
        return tensor
    return tensor.contiguous()


@functools.cache
def _slopes(heads, device):
    return torch.tensor(_attune.alibi_slopes(heads), dtype=torch.float32, device=device)


def standard_slopes(query, heads):
    """The standard slopes of ALiBi as a tensor, which calls on a device need; None on the host, where the library has them."""
    return _slopes(heads, query.device) if query.is_cuda else None


def score_options(query, heads, tensors, numbers):
    options = dict(zip(SCORE_TENSORS, tensors))
    options.update(zip(SCORE_NUMBERS, numbers))
    of_dropout = numbers[len(SCORE_NUMBERS):]
    if any(of_dropout):
        options.update(zip(DROPOUT_NUMBERS, of_dropout))
    options["window"] = (options.pop("left"), options.pop("right"))
    if options["alibi"] and options["alibi_slopes"] is None:
        options["alibi_slopes"] = standard_slopes(query, heads)
    options["alibi"] = options["alibi"] and options["alibi_slopes"] is None
    if options["seed"] is None:
        del options["seed"]
    return options


def heads_of(query):
    return query.shape[1] if query.dim() == 4 else 1


def new_rows(like, shape, layout_of_torch=True):
    """An empty tensor as kernels make it: (B, S, H, D) in memory where it is 4-D."""
    if len(shape) == 4 and layout_of_torch:
        batch, heads, rows, width = shape
        return like.new_empty((batch, rows, heads, width)).transpose(1, 2)
    return like.new_empty(shape)


def wide(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


# Attention. Inputs that have gradients, in the order of the schema.
_ATTENTION = ("query", "key", "value", "score_weight", "bias", "alibi_slopes", "sinks")
_HEAD = "Tensor query, Tensor key, Tensor value, Tensor? score_weight, "


def _attention(query, key, value, score_weight, *rest):
    tensors, (*numbers, score) = rest[:len(SCORE_TENSORS)], rest[len(SCORE_TENSORS):]
    found = _attune.scaled_dot_product_attention(query, key, value, score=score, score_weight=score_weight, lse=True,
                                                 layout="heads_in_rows", detached=True,
                                                 **score_options(query, heads_of(query), tensors, numbers))
    return found.out, found.lse


def attention_fake(query, key, value, score_weight, *rest):
    out = new_rows(query, (*query.shape[:-1], value.shape[-1]))
    return out, query.new_empty(query.shape[:-1], dtype=wide(query.dtype))


def wanted_names(ctx, names, positions):
    return [name for name, position in zip(names, positions) if ctx.needs_input_grad[position]]


def _attention_setup(ctx, inputs, output):
    ctx.set_materialize_grads(False)
    ctx.numbers = inputs[4 + len(SCORE_TENSORS):]
    ctx.save_for_backward(*inputs[:4 + len(SCORE_TENSORS)], *output)


def _attention_autograd(ctx, grad_out, grad_lse, compute=None):
    *tensors, out, lse = ctx.saved_tensors
    positions = (0, 1, 2, 3, 4, 5, 6)
    wanted = wanted_names(ctx, _ATTENTION, positions)
    if grad_out is None:
        grad_out = torch.zeros_like(out)
    found = iter((compute or attention_backward)(grad_out, grad_lse, out, lse, *tensors, *ctx.numbers,
                                                 [name in wanted for name in _ATTENTION]))
    grads = [next(found) if name in wanted else None for name in _ATTENTION]
    return (*grads, *(None,) * (len(tensors) + len(ctx.numbers) - len(grads)))


def _attention_backward(grad_out, grad_lse, out, lse, query, key, value, score_weight, *rest):
    tensors, (*numbers, score, wanted) = rest[:len(SCORE_TENSORS)], rest[len(SCORE_TENSORS):]
    names = [name for name, is_wanted in zip(_ATTENTION, wanted) if is_wanted]
    found = _attune.scaled_dot_product_attention_backward(
        query, key, value, dense_last(out), lse, dense_last(grad_out), grad_lse=grad_lse, gradients=names, score=score,
        score_weight=score_weight, layout="heads_in_rows", detached=True,
        **score_options(query, heads_of(query), tensors, numbers))
    return [found[name] for name in names]


def _attention_backward_fake(grad_out, grad_lse, out, lse, query, key, value, score_weight, *rest):
    tensors, wanted = rest[:len(SCORE_TENSORS)], rest[-1]
    given = dict(zip(_ATTENTION, (query, key, value, score_weight, *tensors)))
    return [new_rows(given[name], given[name].shape, name in ("query", "key", "value"))
            for name, is_wanted in zip(_ATTENTION, wanted) if is_wanted]


attention = define("attention", f"({_HEAD}{SCORE_SCHEMA}, str score) -> (Tensor, Tensor)", _attention, attention_fake,
                   _attention_setup, _attention_autograd)
attention_backward = define(
    "attention_backward",
    f"(Tensor grad_out, Tensor? grad_lse, Tensor out, Tensor lse, {_HEAD}{SCORE_SCHEMA}, str score, bool[] wanted) -> Tensor[]",
    _attention_backward, _attention_backward_fake, no_gradient="no gradients of gradients of attention")


class DirectAttention(torch.autograd.Function):
    """The same operation without torch's dispatcher, which takes longer than a small problem."""

    @staticmethod
    def forward(*inputs):
        return _attention(*inputs)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _attention_setup(ctx, inputs, output)

    @staticmethod
    def backward(ctx, grad_out, grad_lse):
        return _attention_autograd(ctx, grad_out, grad_lse, DirectGradients.apply)


class DirectGradients(torch.autograd.Function):
    """Its gradients, which have none of their own."""

    @staticmethod
    def forward(*inputs):
        return tuple(_attention_backward(*inputs))

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, *grads):
        raise NotImplementedError("attune: no gradients of gradients of attention")


def run_attention(eager, *inputs):
    """(out, lse). `eager`: nobody but autograd, or torch.func.grad, records what happens to the tensors."""
    if not eager:
        return attention(*inputs)
    if peek_interpreter_stack() is not None or (torch.is_grad_enabled() and any(
            t is not None and t.requires_grad for t in inputs[:4 + len(SCORE_TENSORS)])):
        return DirectAttention.apply(*inputs)
    return _attention(*inputs)
