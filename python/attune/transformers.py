# SPDX-License-Identifier: MIT
"""transformers: the attention implementation "attune" for models on CPUs, and on CUDA devices where the library has kernels.

    import attune.transformers
    attune.transformers.register()
    model = AutoModelForCausalLM.from_pretrained(name, attn_implementation="attune")
"""
from __future__ import annotations

from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from attune.torch._attention import general

__all__ = ["attention_forward", "register"]


def attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=None, is_causal=None, position_bias=None,
                      softcap=None, s_aux=None, **kwargs):
    """Attention of a layer of transformers, as its AttentionInterface calls it.

    Args:
        module: the layer; its is_causal counts where the argument is None.
        query, key, value: (B, Hq, Sq, Dk), (B, H, Sk, Dk), (B, H, Sk, Dv); H divides Hq.
        attention_mask: bool, True where a key takes part, or numbers to add; None: all keys, or the causal mask. It holds
            windows and lengths, too.
        position_bias: added to the scores (T5). softcap: c tanh(score / c) (Gemma 2). s_aux: sinks, (Hq) (GPT-OSS).

    Returns:
        (B, Sq, Hq, Dv), and None in the place of the weights.

    Raises:
        ValueError: the weights are asked for (output_attentions), or the library does not serve the tensors.
    """
    if kwargs.get("output_attentions"):
        raise ValueError("attune: output_attentions needs attn_implementation=\"eager\"")
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    is_causal = bool(is_causal) and attention_mask is None and query.shape[2] > 1
    if attention_mask is not None and position_bias is not None and not attention_mask.dtype.is_floating_point:
        bias = position_bias
    elif attention_mask is not None and position_bias is not None:
        attention_mask, bias = None, position_bias + attention_mask
    else:
        bias = position_bias
    out = general(query, key, value, attention_mask, dropout, is_causal, scale=scaling, enable_gqa=True, bias=bias,
                  softcap=0.0 if softcap is None else softcap, sinks=None if s_aux is None else s_aux.float())
    return out.transpose(1, 2), None


def register(name="attune"):
    """Adds attn_implementation=name to transformers, with its mask: a bool one, or none where causality says it all."""
    AttentionInterface.register(name, attention_forward)
    AttentionMaskInterface.register(name, sdpa_mask)
