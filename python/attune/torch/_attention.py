# SPDX-License-Identifier: MIT
"""scaled_dot_product_attention with PyTorch's signature and meaning, and with the options that PyTorch lacks."""
from __future__ import annotations

from itertools import zip_longest

import torch
from torch._C import _len_torch_dispatch_stack
from torch._C._functorch import TransformType, peek_interpreter_stack
from torch.autograd import forward_ad

from attune import UnsupportedError
from attune._attune import torch_attention, variants
from attune.torch import _ops

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
DEVICES = ("cpu", "cuda")
HAS_CUDA = any(variant["target"].startswith("cuda") for variant in variants())  # kernels are linked in
MOST_CHANNELS_ON_CUDA = 256
PLAIN = (torch.Tensor, torch.nn.Parameter)
MOST_EXTENT = 2**31 - 1  # of an extent and of a stride


def is_eager():
    """Whether nobody but autograd, or torch.func.grad, records what happens to tensors: no tracing and no mode."""
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack():
        return False
    interpreter = peek_interpreter_stack()
    return interpreter is None or interpreter.key() == TransformType.Grad


def is_plain(*tensors):
    """Whether the library may be called directly: tensors with memory, and nobody but autograd records the call."""
    if torch.compiler.is_compiling() or _len_torch_dispatch_stack() or peek_interpreter_stack() is not None:
        return False
    for tensor in tensors:
        if tensor is not None and type(tensor) not in PLAIN:
            return False
    return forward_ad._current_level < 0 and not torch.is_autocast_enabled("cpu" if tensors[0].is_cpu else "cuda")


class NeedsMore(Exception):
    """A call that the direct one does not serve."""


class PlainAttention(torch.autograd.Function):
    """The direct call with gradients. It has few inputs, because PyTorch's part grows with each."""

    @staticmethod
    def forward(ctx, query, key, value, attn_mask, is_causal, scale, enable_gqa):
        found = torch_attention(query, key, value, attn_mask, is_causal, scale, enable_gqa, True)
        if found is None:
            raise NeedsMore
        ctx.save_for_backward(query, key, value, attn_mask, *found)
        ctx.numbers = (scale, 0.0, False, "top_left" if is_causal else "none", None, -1, -1, 0.0, False,
                       *(0,) * len(_ops.DROPOUT_NUMBERS), "dot_product")
        return found[0]

    @staticmethod
    def backward(ctx, grad_out):
        query, key, value, attn_mask, out, lse = ctx.saved_tensors
        mask, bias = (attn_mask, None) if attn_mask is None or attn_mask.dtype == torch.bool else (None, attn_mask)
        given = {"bias": bias, "mask": mask}
        wanted = (*ctx.needs_input_grad[:3], False, bias is not None and ctx.needs_input_grad[3], False, False)
        found = iter(_ops.DirectGradients.apply(grad_out, None, out, lse, query, key, value, None,
                                                *map(given.get, _ops.SCORE_TENSORS), *ctx.numbers, wanted))
        grads = [next(found) if is_wanted else None for is_wanted in wanted]
        return (*grads[:3], grads[4], None, None, None)


def direct(query, key, value, attn_mask, is_causal, scale, enable_gqa):
    """The result of a call that needs no option of the library's and no dispatcher; None for another call."""
    if not (query.is_cpu or (query.is_cuda and HAS_CUDA)) or not is_plain(query, key, value, attn_mask):
        return None
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad or
                                    (attn_mask is not None and attn_mask.requires_grad)):
        try:
            return PlainAttention.apply(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        except NeedsMore:
            return None
    return torch_attention(query, key, value, attn_mask, is_causal, scale, enable_gqa, False)


def scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None,
                                 enable_gqa=False, **options):
    """torch.nn.functional.scaled_dot_product_attention, by the library, with autograd.

    Args:
        query: (N, ..., Hq, L, E); f32, f64, bf16 or f16, on the CPU; or f32, bf16 or f16 on a CUDA device, where the library
            has kernels for it: then on the current stream, and lengths, offsets and sinks are on the device as well.
        key: (N, ..., H, S, E).
        value: (N, ..., H, S, Ev).
        attn_mask: bool, True where a key takes part, or numbers that are added to the scores; broadcasts to
            (N, ..., Hq, L, S). Of bool or a floating-point type; it may require a gradient.
        dropout_p: probability with which a weight becomes 0; the seed comes from torch's generator.
        is_causal: query i sees the keys j <= i (top left).
        scale: factor of the scores; None: 1 / sqrt(E).
        enable_gqa: H may divide Hq.
        bias: added to the scores beside a bool attn_mask.
        causal, offset, offsets, window, valid_lens, cache_lens, softcap, alibi, alibi_slopes, sinks, score, score_weight,
            invariant: as in attune.scaled_dot_product_attention, for tensors of up to four dimensions.
        seed: an int in place of torch's generator.
        dropout_offset, dropout_first_query, dropout_first_key, dropout_first_head, dropout_heads: as in
            attune.scaled_dot_product_attention: another mask of the same seed, and a part of a larger call.
        return_lse: also return the log-sum-exp of the scores, (N, Hq, L).

    Returns:
        (N, ..., Hq, L, Ev), 0 for a query without keys; or a pair with lse.

    Raises:
        ValueError: an argument is wrong; attune.UnsupportedError, a ValueError, where the library does not serve the call.
        NotImplementedError: under vmap, and for gradients of gradients.
    """
    if not options and dropout_p == 0.0:
        out = direct(query, key, value, attn_mask, is_causal, scale, enable_gqa)
        if out is not None:
            return out
    return general(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa, **options)


def general(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False, bias=None,
            causal=None, offset=None, offsets=None, window=None, valid_lens=None, cache_lens=None, softcap=0.0, alibi=False,
            alibi_slopes=None, sinks=None, score="dot_product", score_weight=None, invariant=False, seed=None,
            dropout_offset=0, dropout_first_query=0, dropout_first_key=0, dropout_first_head=0, dropout_heads=0,
            return_lse=False):
    """The same through torch's dispatcher: autograd, torch.compile, broadcasting."""
    refuse_transforms()
    if is_autocast(query):
        query, key, value, attn_mask, bias = autocast(query, key, value, attn_mask, bias)
    reason = why_unsupported(query, key, value, attn_mask, enable_gqa)
    if reason:
        raise UnsupportedError(reason)
    if attn_mask is not None and attn_mask.dtype != torch.bool:
        if bias is not None:
            raise ValueError("bias: attn_mask holds numbers, too; add them")
        attn_mask, bias = None, attn_mask
    if is_causal:
        if causal not in (None, "top_left"):
            raise ValueError("causal: is_causal is \"top_left\"")
        causal = "top_left"
    if bias is not None and bias.dtype != query.dtype:
        bias = bias.to(query.dtype)
    query, key, value, outer = as_four(query, key, value, enable_gqa)
    attn_mask, bias = (table_as_four(table, outer) for table in (attn_mask, bias))
    drawn = None
    if dropout_p > 0:
        drawn = draw(seed)
    left, right = (-1, -1) if window is None else window
    tensors = (*map(_ops.dense_last, (query, key, value)), score_weight, _ops.dense_last(bias), alibi_slopes, sinks,
               _ops.dense_last(attn_mask), valid_lens, offsets, cache_lens, drawn)
    eager = is_eager() and all(t is None or (type(t) in PLAIN and not t.is_neg()) for t in tensors)
    out, lse = _ops.run_attention(eager, *tensors, scale, softcap, alibi, causal or "none", offset, left, right, dropout_p,
                                  invariant, dropout_offset, dropout_first_query, dropout_first_key, dropout_first_head,
                                  dropout_heads, score)
    if outer is not None:
        out, lse = out.reshape(*outer, *out.shape[-2:]), lse.reshape(*outer, lse.shape[-1])
    return (out, lse) if return_lse else out


def draw(seed):
    """The seed of a call's dropout, which the library reads on the host: one of torch's generator where none is given."""
    if seed is None:
        return torch.randint(2**63 - 1, (1,), dtype=torch.int64, device="cpu")
    return torch.tensor([seed if seed < 2**63 else seed - 2**64], dtype=torch.int64, device="cpu")


def refuse_transforms():
    """Refuses vmap and forward-mode derivatives in words. While torch.compile traces, the operations' own rules do."""
    if torch.compiler.is_compiling():
        return
    interpreter = peek_interpreter_stack()
    if interpreter is not None and interpreter.key() == TransformType.Vmap:
        raise NotImplementedError("attune.torch: attention has no rule for vmap; put the mapped dimension into the batch")
    if forward_ad._current_level >= 0:
        raise NotImplementedError("attune.torch: no forward-mode derivatives (jvp); use backward()")


def is_autocast(query):
    """Whether torch.autocast is on for the tensor's device."""
    return query.device.type in DEVICES and torch.is_autocast_enabled(query.device.type)


def autocast(query, *others):
    """Casts as torch.autocast does for PyTorch's own function."""
    dtype = torch.get_autocast_dtype(query.device.type)
    cast = lambda t: t.to(dtype) if t is not None and t.is_floating_point() and t.dtype != torch.float64 else t
    return tuple(cast(t) for t in (query, *others))


def why_unsupported(query, key, value, attn_mask=None, enable_gqa=False):
    """Why the library does not serve these tensors; None if it does. PyTorch's own function then answers, or says what is
    wrong."""
    for name, tensor in (("query", query), ("key", key), ("value", value), ("attn_mask", attn_mask)):
        if tensor is None:
            continue
        if tensor.device.type not in DEVICES:
            return f"{name}: is on {tensor.device.type}; the library computes on CPUs and CUDA devices"
        if tensor.device != query.device:
            return f"{name}: is on {tensor.device}, query on {query.device}"
        if tensor.layout is not torch.strided or tensor.is_nested:
            return f"{name}: is sparse or nested"
        if any(max(extent, abs(stride) if extent > 1 else 0) > MOST_EXTENT
               for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)):
            return f"{name}: an extent or a stride is more than 2^31 - 1"
    if query.dtype not in DTYPES or key.dtype != query.dtype or value.dtype != query.dtype:
        return f"query, key, value: types are {query.dtype}, {key.dtype}, {value.dtype}; one of f32, f64, bf16, f16 is served"
    if query.device.type == "cuda":
        if not HAS_CUDA:
            return "query: is on a CUDA device; this build of the library has no kernels for it"
        if query.dtype == torch.float64 or max(query.shape[-1:] + value.shape[-1:], default=0) > MOST_CHANNELS_ON_CUDA:
            return f"query, value: f64 and more than {MOST_CHANNELS_ON_CUDA} channels are not served on a device"
    if min(query.dim(), key.dim(), value.dim()) < 2:
        return "query, key, value: two dimensions are needed or more"
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        return "query, key, value: extents do not fit"
    if query.shape[-1] == 0 or value.shape[-1] == 0:
        return "query, value: have no channels"
    if attn_mask is not None:
        if attn_mask.dtype != torch.bool and not attn_mask.is_floating_point():
            return f"attn_mask: type is {attn_mask.dtype}; bool or floating point is served"
        if attn_mask.dim() > max(query.dim(), 4) or attn_mask.dim() == 0:
            return "attn_mask: has more dimensions than query, or none"
    dims = max(query.dim(), key.dim(), value.dim())
    if dims < 3:
        return None
    heads, key_heads, value_heads = (t.shape[-3] if t.dim() > 2 else 1 for t in (query, key, value))
    if enable_gqa:
        if query.dim() < 4 or key.dim() < 4 or value.dim() < 4:
            return "enable_gqa: four dimensions are needed"
        if key_heads != value_heads or key_heads == 0 or heads % key_heads:
            return "enable_gqa: heads of query are no multiple of those of key and value"
    return None


def as_four(query, key, value, enable_gqa):
    """The tensors with up to four dimensions, and the outer extents of the result where they are not query's own."""
    if query.dim() == key.dim() == value.dim() <= 4 and key.shape[:-2] == value.shape[:-2]:
        if query.shape[:-2] == key.shape[:-2]:
            return query, key, value, None
        heads = (query.shape[1], key.shape[1]) if query.dim() == 4 and query.shape[0] == key.shape[0] else (1, 0)
        if heads[1] == 1 or (enable_gqa and heads[1] > 0 and heads[0] % heads[1] == 0):
            return query, key, value, None
    outers = [t.shape[:-2] for t in (query, key, value)]
    if any(len({1, *extents}) > 2 for extents in zip_longest(*map(reversed, outers), fillvalue=1)):
        raise ValueError("query, key, value: extents before the last two, " + ", ".join(str(tuple(o)) for o in outers) +
                         ", do not broadcast; enable_gqa=True lets heads of key and value divide those of query")
    outer = torch.broadcast_shapes(*outers)
    if len(outer) < 2:
        return *(t.expand(*outer, *t.shape[-2:]) for t in (query, key, value)), None
    return *(t.expand(*outer, *t.shape[-2:]).reshape(-1, *outer[-1:], *t.shape[-2:]) for t in (query, key, value)), outer


def table_as_four(table, outer):
    """A mask or bias for tensors that as_four() turned."""
    if table is None or outer is None or table.dim() < 3:
        return table
    if len(outer) == 2 and table.dim() <= 4:
        return table
    return table.expand(*outer, *table.shape[-2:]).reshape(-1, outer[-1], *table.shape[-2:])
