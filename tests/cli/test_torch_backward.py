# SPDX-License-Identifier: MIT
"""Gradients in f32 beside PyTorch's autograd on the CPU. Optional: skipped, by name, where PyTorch is not installed."""
import numpy as np
import pytest
from attention_numpy import Options, standard_slopes
from backward_numpy import sdpa_backward
from element_types import F32

SIZES = dict(batch=2, heads=4, key_heads=2, queries=129, keys=131, head_dim=64, value_dim=64)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch, whose autograd the gradients are compared with, is not installed")


def tensors(seed, batch, heads, key_heads, queries, keys, head_dim, value_dim):
    rng = np.random.default_rng(seed)
    normal = lambda *shape: rng.standard_normal(shape).astype(np.float32)
    return {"q": normal(batch, heads, queries, head_dim), "k": normal(batch, key_heads, keys, head_dim),
            "v": normal(batch, key_heads, keys, value_dim), "do": normal(batch, heads, queries, value_dim)}, normal


def autograd(torch, arrays, forward, given, wide):
    """Gradients of sum(out * do) by q, k, v and what else is `given`. `forward` takes keys with the heads of the query."""
    of = lambda a: torch.from_numpy(a).to(torch.float64 if wide else torch.float32).requires_grad_()
    leaves = {name: of(array) for name, array in {**{n: arrays[n] for n in "qkv"}, **given}.items()}
    group = arrays["q"].shape[1] // arrays["k"].shape[1]
    k, v = (leaves[name].repeat_interleave(group, dim=1) for name in "kv")
    out = forward(leaves["q"], k, v, leaves)
    out.backward(of(arrays["do"]).detach())
    return {name: leaf.grad.numpy() for name, leaf in leaves.items()}


def composed(torch, q, k, v, change=lambda x: x, sinks=None):
    """Attention by the operations that it is made of, for what the one function of PyTorch does not have."""
    x = change(q @ k.transpose(-1, -2) / np.sqrt(q.shape[-1]))
    if sinks is not None:
        x = torch.cat([x, sinks[None, :, None, None].expand(*x.shape[:3], 1)], dim=-1)
    return torch.softmax(x, dim=-1)[..., :k.shape[2]] @ v


def judge(name, got, torch_result, exact, size):
    """At most twice the error of PyTorch in f32, in the maximum and in the mean, plus the floor of roundings."""
    for how, norm in (("maximum", np.max), ("mean", np.mean)):
        error, theirs = (float(norm(np.abs(a.astype(np.float64) - exact))) for a in (got, torch_result))
        allowed = 2 * theirs + F32.floor * float(norm(np.abs(size)))
        assert error <= allowed, f"{name}: {how} error {error:.3g}, allowed {allowed:.3g} (PyTorch: {theirs:.3g})"


def check(backward, torch, arrays, forward, *words, given={}, expected=Options()):
    """given: what autograd calls by the names of files, and the gradient that the program has for it."""
    names = {"q": "query", "k": "key", "v": "value", "bias": "bias", "slopes": "slopes", "sinks": "sinks"}
    backward.save(**arrays, **given)
    got = backward.gradients(*words, wanted=[names[name] for name in ("q", "k", "v", *given)])
    exact, theirs = (autograd(torch, arrays, forward, given, wide) for wide in (True, False))
    sizes = sdpa_backward(*(arrays[name] for name in ("q", "k", "v", "do")), None, expected, parts=np.abs)
    for name in ("q", "k", "v", *given):
        judge(name, got[names[name]], theirs[name], exact[name], getattr(sizes, names[name]))


def sdpa_of(torch, **how):
    return lambda q, k, v, _: torch.nn.functional.scaled_dot_product_attention(q, k, v, **how)


@pytest.mark.parametrize("sizes", [{}, {"key_heads": 4}, {"head_dim": 40, "value_dim": 72}, {"queries": 1}, {"keys": 1},
                                   {"queries": 300, "keys": 257, "batch": 1}])
def test_torch_full(backward, torch, sizes):
    arrays, _ = tensors(1, **{**SIZES, **sizes})
    check(backward, torch, arrays, sdpa_of(torch))


def test_torch_causal(backward, torch):
    arrays, _ = tensors(2, **{**SIZES, "keys": 129})
    check(backward, torch, arrays, sdpa_of(torch, is_causal=True), "--causal", "top-left", expected=Options(causal="top-left"))


def test_torch_boolean_mask(backward, torch):
    arrays, _ = tensors(3, **SIZES)
    mask = np.random.default_rng(3).random((2, 1, 129, 131)) < 0.6
    backward.save(mask=mask)
    check(backward, torch, arrays, sdpa_of(torch, attn_mask=torch.from_numpy(mask)), "--mask", "mask.npy",
          expected=Options(mask=mask))


@pytest.mark.parametrize("shape", [(1, 4, 129, 131), (129, 131), (2, 1, 1, 131)])
def test_torch_bias(backward, torch, shape):
    arrays, normal = tensors(4, **SIZES)
    bias = normal(*shape)
    check(backward, torch, arrays,
          lambda q, k, v, of: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=of["bias"]), "--bias",
          "bias.npy", given={"bias": bias}, expected=Options(bias=bias))


def test_torch_softcap(backward, torch):
    arrays, _ = tensors(5, **SIZES)
    check(backward, torch, arrays, lambda q, k, v, _: composed(torch, q, k, v, lambda x: 2 * torch.tanh(x / 2)), "--softcap",
          "2", expected=Options(softcap=2))


def test_torch_slopes_and_sinks(backward, torch):
    arrays, normal = tensors(6, **SIZES)
    slopes, sinks = standard_slopes(4), normal(4)
    distance = torch.from_numpy(np.abs(np.arange(129)[:, None] + 2 - np.arange(131)).astype(np.float32))
    check(backward, torch, arrays,
          lambda q, k, v, of: composed(torch, q, k, v, lambda x: x - of["slopes"][:, None, None] * distance, of["sinks"]),
          "--alibi", "slopes.npy", "--sinks", "sinks.npy", given={"slopes": slopes, "sinks": sinks},
          expected=Options(alibi=slopes, sinks=sinks))
