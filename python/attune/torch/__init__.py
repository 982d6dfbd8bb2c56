# SPDX-License-Identifier: MIT
"""PyTorch: operations with autograd on CPU and CUDA tensors, and the library in the place of PyTorch's own attention.

    import attune.torch
    out = attune.torch.scaled_dot_product_attention(query, key, value, is_causal=True, window=(255, 0))
    attune.torch.enable()  # torch.nn.functional.scaled_dot_product_attention is the library's
"""
from attune.torch._attention import scaled_dot_product_attention
from attune.torch._enable import disable, enable
from attune.torch._functions import (
    additive_attention,
    kv_append,
    linear,
    masked_softmax,
    merge_attention,
    multi_head_attention,
    paged_append,
    paged_attention,
    transform_rows,
    variable_length_attention,
)
from attune.torch._ring import process_group_communicator, ring_attention

__all__ = ["additive_attention", "disable", "enable", "kv_append", "linear", "masked_softmax", "merge_attention",
           "multi_head_attention", "paged_append", "paged_attention", "process_group_communicator", "ring_attention",
           "scaled_dot_product_attention", "transform_rows", "variable_length_attention"]
