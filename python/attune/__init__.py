# SPDX-License-Identifier: MIT
"""Attention functions, forward and backward, over NumPy arrays, torch tensors and anything else with DLPack.

    import attune
    out = attune.scaled_dot_product_attention(query, key, value, causal="bottom_right")

Arrays are read and written where they are, in the host's memory or, in a build with kernels for CUDA, in that of a device:
nothing is copied. A result is a torch tensor where query is one, else a NumPy array. Python's lock (GIL) is released while the
library computes. Errors are ValueError with the library's message.

attune.torch has operations with autograd for PyTorch, attune.transformers an attention implementation for transformers.
"""
from attune._attune import (
    Context,
    Heatmap,
    UnsupportedError,
    additive_attention,
    additive_attention_backward,
    alibi_slopes,
    batch_dot,
    default_context,
    default_threads,
    dropout_mask,
    heatmap,
    kv_append,
    linear,
    linear_backward,
    masked_softmax,
    masked_softmax_backward,
    merge_attention,
    missing_variants,
    multi_head_attention,
    multi_head_attention_backward,
    pack_linear_weight,
    paged_append,
    paged_attention,
    plan_product,
    plan_sdpa,
    rope_tables,
    scaled_dot_product_attention,
    scaled_dot_product_attention_backward,
    targets,
    transform_rows,
    transform_rows_backward,
    variable_length_attention,
    variable_length_attention_backward,
    variants,
    version,
)
from attune._define import DefinedAttention, define
from attune._facts import doctor
from attune._results import Attention, BuildError

__version__ = version()
__all__ = ["Attention", "BuildError", "Context", "DefinedAttention", "Heatmap", "UnsupportedError", "additive_attention",
           "additive_attention_backward", "alibi_slopes", "batch_dot", "default_context", "default_threads", "define",
           "doctor", "dropout_mask", "heatmap", "kv_append", "linear", "linear_backward", "masked_softmax",
           "masked_softmax_backward", "merge_attention", "missing_variants", "multi_head_attention",
           "multi_head_attention_backward", "pack_linear_weight", "paged_append", "paged_attention", "plan_product",
           "plan_sdpa", "rope_tables", "scaled_dot_product_attention", "scaled_dot_product_attention_backward", "targets",
           "transform_rows", "transform_rows_backward", "variable_length_attention", "variable_length_attention_backward",
           "variants", "version"]
