# SPDX-License-Identifier: MIT
"""attune.torch.enable(): the library in the place of torch.nn.functional.scaled_dot_product_attention."""
from __future__ import annotations

import torch
from torch._C._functorch import peek_interpreter_stack
from torch.autograd import forward_ad

from attune.torch._attention import direct, general, is_autocast, why_unsupported

functional = torch.nn.functional
original = functional.scaled_dot_product_attention


def replacement(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
    if dropout_p == 0.0:
        try:
            out = direct(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        except (ValueError, MemoryError):  # PyTorch's own function answers, or reports the fault
            out = None
        if out is not None:
            return out
    if takes(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
        call = lambda: general(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        if torch.compiler.is_compiling():
            return call()
        try:
            return call()
        except (ValueError, MemoryError):  # refused by the library: a limit of sizes, a number out of range, or no memory
            pass
    return original(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)


replacement.__name__ = replacement.__qualname__ = "scaled_dot_product_attention"
replacement.__doc__ = original.__doc__


def takes(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa):
    """Whether the library answers as PyTorch would; all else is PyTorch's, errors included."""
    if is_autocast(query) and query.is_floating_point():
        if not (key.is_floating_point() and value.is_floating_point()):
            return False
    elif query.dtype != key.dtype or query.dtype != value.dtype:
        return False
    if forward_ad._current_level >= 0 or (is_causal and attn_mask is not None) or not 0 <= dropout_p <= 1:
        return False
    if not torch.compiler.is_compiling() and peek_interpreter_stack() is not None:  # vmap and its like
        return False
    if attn_mask is not None and attn_mask.dtype not in (torch.bool, torch.float32, query.dtype):
        return False
    if why_unsupported(query, key, value, attn_mask, enable_gqa):
        return False
    try:
        outer = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2]) if not enable_gqa else None
        if attn_mask is not None:
            full = (*(query.shape[:-2] if outer is None else outer), query.shape[-2], key.shape[-2])
            if torch.broadcast_shapes(attn_mask.shape, full) != torch.Size(full):
                return False
    except RuntimeError:
        return False
    return True


class enable:
    """Puts the library in the place of torch.nn.functional.scaled_dot_product_attention, for tensors on CPUs, and on CUDA
    devices where the library has kernels for them.

        attune.torch.enable()            # from here on
        with attune.torch.enable(): ...  # within the block

    Calls that the library does not serve, and tensors elsewhere, go to PyTorch's own function. A module that imported the
    function by name before keeps PyTorch's.
    """

    def __init__(self):
        self._before = functional.scaled_dot_product_attention
        functional.scaled_dot_product_attention = replacement

    def __enter__(self):
        return self

    def __exit__(self, *error):
        functional.scaled_dot_product_attention = self._before


def disable():
    """Puts PyTorch's own function back."""
    functional.scaled_dot_product_attention = original
