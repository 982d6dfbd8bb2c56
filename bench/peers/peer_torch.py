# SPDX-License-Identifier: MIT
"""PyTorch's attention of a Problem: its flash and math backends, and FlexAttention compiled."""

from attention_problem import FEW


def programs(peers, problem, flex=True, math=True):
    torch = peers.torch
    sdpa = torch.nn.functional.scaled_dot_product_attention
    q, k, v, mask = peers.tensors(*problem.arrays, problem.mask)
    given = {"attn_mask": mask, "enable_gqa": problem.grouped}
    if problem.causal and problem.square and not problem.window:
        given |= {"attn_mask": None, "is_causal": True}

    made = {"torch flash": flash(torch, lambda: sdpa(q, k, v, **given))}
    backends = torch.backends.cuda  # the switches of the CPU's backends, too

    def math_backend():
        backends.enable_flash_sdp(False)
        try:
            return sdpa(q, k, v, **given)
        finally:
            backends.enable_flash_sdp(True)

    if math:
        made["torch math"] = math_backend
    if problem.grouped and problem.queries <= FEW:
        joined = q.reshape(problem.batch, problem.key_heads, -1, problem.dim)
        rows = None if mask is None else mask.repeat(problem.heads // problem.key_heads, 1)
        shape = *q.shape[:-1], problem.out_dim
        made["torch flash, group as queries"] = flash(
            torch, lambda: sdpa(joined, k, v, attn_mask=rows).reshape(shape))
        if problem.value_dim:  # flash refuses
            made["torch math, group as queries"] = lambda: sdpa(joined, k, v, attn_mask=rows).reshape(shape)
    if flex:
        made["torch FlexAttention"] = flex_attention(peers, problem, q, k, v)
    return made


def flash(torch, call):
    """The call, or what the backend says against it: PyTorch would take the math backend without a word."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def refused():
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            return call()

    try:
        refused()
    except RuntimeError:
        return refused
    return call


def flex_attention(peers, problem, q, k, v):
    from torch.nn.attention import flex_attention as flex

    torch, given, past = peers.torch, {}, problem.keys - problem.queries
    if problem.lengths:
        (lens,) = peers.tensors(problem.valid_lens)
        keep = lambda b, h, i, j: j < lens[b]
    elif problem.window:
        keep = lambda b, h, i, j: (j <= i + past) & (j > i + past - problem.window)
    else:
        keep = lambda b, h, i, j: j <= i + past
    if problem.mask is not None:
        given["block_mask"] = flex.create_block_mask(keep, problem.batch if problem.lengths else None, None, problem.queries,
                                                     problem.keys, device="cpu")
    compiled = peers.compiled(flex.flex_attention)
    return lambda: compiled(q, k, v, enable_gqa=problem.grouped, **given)
