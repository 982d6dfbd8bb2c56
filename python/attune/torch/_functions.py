# SPDX-License-Identifier: MIT
"""Functions beside scaled_dot_product_attention: additive attention, packed batches, pages, layers, rows."""
from __future__ import annotations

import torch

import attune
from attune.torch import _layer_ops as ops
from attune.torch._attention import autocast, draw, general, is_autocast, refuse_transforms
from attune.torch._ops import dense_last


def _lengths(tensor):
    """Lengths and indices: a tensor as it is, a list as i32 on the host."""
    return torch.tensor(tensor, dtype=torch.int32, device="cpu") if isinstance(tensor, (list, tuple)) else tensor


def _pages(name, pages):
    """(rows, scale, minimum) of pages, with None for what they lack."""
    if not isinstance(pages, tuple):
        return pages, None, None
    if not 1 <= len(pages) <= 3:
        raise ValueError(f"{name}: must be an array, (rows, scale) or (rows, scale, minimum)")
    return (*pages, None, None)[:3]


def _refuse_gradients(name, tensors):
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise NotImplementedError(f"attune.torch: {name} has no gradients; call it within torch.no_grad()")


def _score(bias=None, alibi_slopes=None, sinks=None, mask=None, valid_lens=None, offsets=None, cache_lens=None, dropout_p=0.0,
           seed=None, scale=None, softcap=0.0, alibi=False, causal=None, offset=None, window=None, invariant=False,
           dropout_offset=0, dropout_first_query=0, dropout_first_key=0, dropout_first_head=0, dropout_heads=0):
    left, right = (-1, -1) if window is None else window
    return (bias, alibi_slopes, sinks, mask, _lengths(valid_lens), _lengths(offsets), _lengths(cache_lens),
            draw(seed) if dropout_p > 0 else None, scale, softcap, alibi, causal or "none", offset, left, right, dropout_p,
            invariant, dropout_offset, dropout_first_query, dropout_first_key, dropout_first_head, dropout_heads)


def additive_attention(query, key, value, w_query=None, w_key=None, w_score=None, *, b_query=None, b_key=None,
                       return_lse=False, **options):
    """Additive attention (Bahdanau et al., 2015): attune.additive_attention with autograd by every tensor.

    Args:
        query, key, value: (B, Hq, Sq, Dq), (B, Hkv, Sk, Dk), (B, Hkv, Sk, Dv), or of rank 3 or 2; f32 or f64.
        w_query, w_key, b_query, b_key: projections (h, Dq) and (h, Dk) and their biases (h); None: projected already.
        w_score: weight of each unit, (h); None: ones.
        return_lse: also return lse.
        **options: bias, mask, valid_lens, causal, window, dropout_p... as in attune.additive_attention.
    """
    refuse_transforms()
    query, key, value = map(dense_last, (query, key, value))
    out, lse = ops.additive(query, key, value, w_query, w_key, b_query, b_key, w_score, *_score(**options))
    return (out, lse) if return_lse else out


def variable_length_attention(query, key, value, cu_seqlens_q, cu_seqlens_k, *, return_lse=False, **options):
    """attune.variable_length_attention with autograd by query, key, value, alibi_slopes and sinks: attention of each sequence
    of a packed batch. Rows beyond the last sequence are 0, and so are their gradients.

    Args:
        query, key, value: (Tq, Hq, Dk), (Tk, Hkv, Dk), (Tk, Hkv, Dv).
        cu_seqlens_q, cu_seqlens_k: int32 (B + 1), or lists: sequence s has the rows [cu[s], cu[s + 1]).
        return_lse: also return lse, (Hq, Tq).
        **options: causal, window, softcap, alibi, sinks, dropout_p... as in attune.variable_length_attention.
    """
    refuse_transforms()
    query, key, value = map(dense_last, (query, key, value))
    out, lse = ops.packed(query, key, value, _lengths(cu_seqlens_q), _lengths(cu_seqlens_k), *_score(**options))
    return (out, lse) if return_lse else out


def paged_attention(query, key_pages, value_pages, cu_seqlens_q, block_table, lens, *, scale=None, softcap=0.0, alibi=False,
                    causal=True, window=None, weight_sums=None, invariant=False, return_lse=False, **tensors):
    """attune.paged_attention: attention over caches in pages of a pool. It has no gradients.

    Args:
        query: (Tq, Hq, Dk).
        key_pages, value_pages: (P, page, Hkv, Dk) and (P, page, Hkv, Dv), or quantised: (rows, scale), (rows, scale, minimum).
        cu_seqlens_q, block_table, lens: int32 (B + 1), (B, N), (B), or lists.
        scale, softcap, alibi, causal, window, invariant, and the tensors distance_bias, alibi_slopes, tree_mask, positions,
            sinks, prefix_block_table, prefix_lens, prefix_of, indptr: as in attune.paged_attention.
        weight_sums: a tensor that is written, (B, Hq, Sk) or (B, Hkv, Sk): the sums of weights by key.
        return_lse: also return lse, (Hq, Tq).
    """
    refuse_transforms()
    if unknown := set(tensors) - set(ops.PAGED_TENSORS):
        raise TypeError(f"paged_attention() got an unexpected keyword argument {min(unknown)!r}")
    left, right = (-1, -1) if window is None else window
    inputs = (query, *_pages("key_pages", key_pages), *_pages("value_pages", value_pages),
              *map(_lengths, (cu_seqlens_q, block_table, lens)),
              *(_lengths(tensors.get(name)) for name in ops.PAGED_TENSORS), scale, softcap, alibi, causal, left, right,
              invariant)
    if weight_sums is None:
        out, lse = ops.paged(*inputs)
    else:
        _refuse_gradients("paged_attention with weight_sums", (*filter(torch.is_tensor, inputs), weight_sums))
        out, lse = ops.paged_with_sums(*inputs, weight_sums)
    return (out, lse) if return_lse else out


def linear(x, weight, bias=None):
    """x weight^T + bias, as torch.nn.functional.linear, by the library; x of rank 1 to 4."""
    refuse_transforms()
    if is_autocast(x):
        x, weight, bias = autocast(x, weight, bias)
    return ops.linear(dense_last(x), dense_last(weight), bias)


def masked_softmax(scores, valid_lens=None, fill="zero"):
    """attune.masked_softmax with autograd: softmax over the last dimension, of the first valid_lens scores."""
    refuse_transforms()
    return ops.softmax(dense_last(scores), _lengths(valid_lens), fill)


def multi_head_attention(query, key, value, w_query, w_key, w_value, w_out, *, heads, key_heads=None, b_query=None, b_key=None,
                         b_value=None, b_out=None, **options):
    """The multi-head attention layer: linear layers and scaled_dot_product_attention, with the autograd of both.

    Args:
        query, key, value: (B, Sq, Eq), (B, Sk, Ek), (B, Sk, Ev).
        w_query, w_key, w_value, w_out: (out, in), as linear layers have them; b_query, b_key, b_value, b_out: biases.
        heads, key_heads: heads of the query, and of key and value (None: as many).
        **options: as in attune.torch.scaled_dot_product_attention.
    """
    key_heads = heads if key_heads is None else key_heads

    def split(x, weight, bias, count):
        return linear(x, weight, bias).unflatten(-1, (count, -1)).transpose(1, 2)

    out = general(split(query, w_query, b_query, heads), split(key, w_key, b_key, key_heads),
                  split(value, w_value, b_value, key_heads), enable_gqa=True, **options)
    return linear(out.transpose(1, 2).flatten(-2), w_out, b_out)


def transform_rows(x, positions=None, *, norm_weight=None, norm_eps=1e-6, rope_cos=None, rope_sin=None, rope_base=0.0,
                   rope_scaling=1.0, rope_dim=0, rope_offset=0, rope_pairs="halves", hadamard=False):
    """attune.transform_rows with autograd by x and norm_weight: RMS norm, RoPE and Hadamard rotation of rows."""
    refuse_transforms()
    return ops.rows(dense_last(x), _lengths(positions), norm_weight, rope_cos, rope_sin, norm_eps, rope_base,
                     rope_scaling, rope_dim, rope_offset, rope_pairs, hadamard)


def _without_autograd(function, tensors, **options):
    _refuse_gradients(function.__name__, tensors)
    return function(**options, detached=True)


def merge_attention(parts, *, lse=None, out=None):
    """attune.merge_attention of tensors: the result of one call over the keys of all parts. It has no gradients."""
    parts = list(parts)
    return _without_autograd(attune.merge_attention, [t for part in parts for t in part], parts=parts, lse=lse, out=out)


def kv_append(key, value, cache_lens, key_cache, value_cache, **options):
    """attune.kv_append of tensors: rows behind the last rows of the caches, in place. It has no gradients."""
    _without_autograd(attune.kv_append, (key, value, key_cache, value_cache), key=key, value=value, cache_lens=cache_lens,
                      key_cache=key_cache, value_cache=value_cache, **options)


def paged_append(key, value, slots, key_pages, value_pages, **options):
    """attune.paged_append of tensors: rows into pages of a pool, in place. It has no gradients."""
    _without_autograd(attune.paged_append, (key, value), key=key, value=value, slots=slots, key_pages=key_pages,
                      value_pages=value_pages, **options)
