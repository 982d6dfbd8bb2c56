# SPDX-License-Identifier: MIT
"""The error rule for tensors: the error against f64 is at most twice that of PyTorch's plain computation in the same type, plus
a floor of a few roundings of the largest number (tests/cli/judging.py)."""
import torch

FLOOR = {torch.float32: 4 * 2.0**-23, torch.float64: 4 * 2.0**-52, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}


def judge(name, got, plain, exact, sizes=None):
    """`plain`: PyTorch's result, or several equally plain ones, of which the largest error counts. `sizes`: the terms whose sum
    the result is, where these cancel; the floor is of their size."""
    plains = plain if isinstance(plain, list) else [plain]
    plain = plains[0]
    assert got.dtype == plain.dtype and got.shape == exact.shape, f"{name}: {got.dtype} {got.shape}, expected {exact.shape}"
    if got.numel() == 0:
        return
    floor = FLOOR[got.dtype] * (exact if sizes is None else sizes).abs().max().item()
    assert torch.isfinite(got).all(), f"{name}: not finite"
    error, *others = ((t.detach().double() - exact.double()).abs().max().item() for t in (got, *plains))
    plain_error = max(others)
    assert error <= 2 * plain_error + floor, f"{name}: error {error:.3g}, plain {plain_error:.3g}, floor {floor:.3g}"


def plain_attention(query, key, value, mask=None, bias=None, scale=None, softcap=0.0, sinks=None, factor=None):
    """softmax(score) value, step by step; heads of key and value are repeated to those of query. Rows without keys are 0.
    `factor`: of the weights, as dropout has it."""
    if query.dim() > 3 and key.shape[-3] != query.shape[-3] and key.shape[-3] > 1:
        key, value = (t.repeat_interleave(query.shape[-3] // t.shape[-3], -3) for t in (key, value))
    score = query @ key.transpose(-2, -1) * (query.shape[-1]**-0.5 if scale is None else scale)
    if softcap:
        score = softcap * torch.tanh(score / softcap)
    if bias is not None:
        score = score + bias
    if mask is not None:
        score = score.masked_fill(~mask, -torch.inf)
    if sinks is not None:
        sink = sinks.to(score.dtype)[:, None, None].expand(*score.shape[:-1], 1)
        return (torch.cat([score, sink], -1).softmax(-1)[..., :-1]) @ value
    weights = score.softmax(-1).masked_fill(torch.isneginf(score).all(-1, keepdim=True), 0)
    return (weights if factor is None else weights * factor) @ value
