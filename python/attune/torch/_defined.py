# SPDX-License-Identifier: MIT
"""Attention of attune.define() over tensors: autograd."""
from __future__ import annotations

import torch

from attune import Attention
from attune.torch._attention import refuse_transforms
from attune.torch._ops import dense_last

_MADE = ("out", "lse", "weights")  # outputs


class _Defined(torch.autograd.Function):
    @staticmethod
    def forward(ctx, forward, backward, names, options, *tensors):
        found = forward(*tensors[:3], **dict(zip(names, tensors[3:])), **options, lse=True, layout="heads_in_rows",
                        detached=True)
        ctx.call, ctx.names = backward, names
        ctx.options = {name: given for name, given in options.items() if name != "report"}
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*tensors, found.out, found.lse)
        return found.out, found.lse

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_out, grad_lse):
        *tensors, out, lse = ctx.saved_tensors
        names = ("query", "key", "value", *ctx.names)
        wanted = [name for name, is_wanted in zip(names, ctx.needs_input_grad[4:]) if is_wanted]
        if grad_out is None:
            grad_out = torch.zeros_like(out)
        found = ctx.call(*tensors[:3], out, lse, dense_last(grad_out), grad_lse=dense_last(grad_lse), gradients=wanted,
                         layout="heads_in_rows", detached=True, **dict(zip(ctx.names, tensors[3:])), **ctx.options)
        return None, None, None, None, *(found.get(name) for name in names)


@torch.compiler.disable
def call(forward, backward, captures, query, key, value, options):
    """The result of a call of forward(), recorded by autograd where a tensor requires a gradient. `backward` is None for a
    function without gradients."""
    refuse_transforms()
    tensors = {name: t for name, t in options.items() if isinstance(t, torch.Tensor) and name not in _MADE}
    needed = [name for name, t in {"query": query, "key": key, "value": value, **tensors}.items()
              if isinstance(t, torch.Tensor) and t.requires_grad]
    if not torch.is_grad_enabled() or not needed:
        return forward(query, key, value, **{"detached": True, **options})
    if backward is None:
        raise NotImplementedError("attune: this function has no gradients; call it within torch.no_grad()")
    without = {c["name"] for c in captures if not c["has_gradient"]} & set(needed)
    if without:
        raise NotImplementedError(f"attune: {min(without)} has no gradient; detach() it")
    wants_lse = options.get("lse") is True
    for name in _MADE:
        given = options.get(name)
        if given is not None and given is not False and not (name == "lse" and wants_lse):
            raise NotImplementedError(f"attune: {name} is not recorded by autograd; call within torch.no_grad()")
    others = {name: given for name, given in options.items()
              if name not in tensors and name not in (*_MADE, "layout", "detached")}
    dense = [dense_last(t) for t in (query, key, value, *tensors.values())]
    out, lse = _Defined.apply(forward, backward, tuple(tensors), others, *dense)
    return Attention(out, lse, None) if wants_lse else out
