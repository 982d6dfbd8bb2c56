# SPDX-License-Identifier: MIT
"""attune.torch.scaled_dot_product_attention: options, autograd, opcheck, torch.compile, transforms, enable()."""
import threading

import pytest

torch = pytest.importorskip("torch")
import attune  # noqa: E402
import attune.torch  # noqa: E402
import torch.nn.functional as functional  # noqa: E402
from attune.torch import _attention, _enable, _ops  # noqa: E402
from judge import judge, plain_attention  # noqa: E402

sdpa = attune.torch.scaled_dot_product_attention


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def qkv(dtype=torch.float32, heads=4, key_heads=2, queries=5, keys=7, grad=False):
    shapes = ((2, heads, queries, 8), (2, key_heads, keys, 8), (2, key_heads, keys, 6))
    return [torch.randn(s, dtype=dtype, requires_grad=grad) for s in shapes]


def check(given, plain, tensors=None, more=(), sizes=None):
    """Forward and gradients, by the error rule. `sizes`: of the gradient of the last tensor, where what it sums cancels."""
    tensors = [*(tensors or qkv()), *more]
    leaves = lambda dtype: [t.detach().to(dtype if t.is_floating_point() else t.dtype).requires_grad_() for t in tensors]
    results = []
    for dtype, function in ((torch.float32, given), (torch.float32, plain), (torch.float64, plain)):
        inputs = leaves(dtype)
        out = function(*inputs)
        grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)
        results.append((out, *torch.autograd.grad(out, inputs, grad)))
    for n, (mine, theirs, exact) in enumerate(zip(*results)):
        judge(f"result {n}", mine, theirs, exact, sizes if n == len(tensors) else None)
    with torch.no_grad():
        assert torch.equal(given(*[t.detach() for t in tensors]), results[0][0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_plain_call_has_the_bits_of_the_library(dtype):
    q, k, v = qkv(dtype)
    out = sdpa(q, k, v, enable_gqa=True)
    assert out.dtype == dtype and torch.equal(out, attune.scaled_dot_product_attention(q, k, v))
    assert out.transpose(1, 2).is_contiguous()  # as PyTorch's own: heads are merged by a view
    assert torch.equal(out, sdpa(*[t.detach().requires_grad_() for t in (q, k, v)], enable_gqa=True))


@pytest.mark.parametrize("mask", [None, "bool", "bias"])
def test_recorded_direct_call_has_the_bits_of_the_dispatched_one(mask):
    tensors = qkv(key_heads=4, grad=True)
    if mask:
        tensors.append(torch.rand(5, 7) < 0.7 if mask == "bool" else torch.randn(4, 5, 7, requires_grad=True))
    leaves = [t for t in tensors if t.requires_grad]
    results = []
    for function in (sdpa, _attention.general):
        out = function(*tensors)
        results.append((out, *torch.autograd.grad(out.square().sum(), leaves, create_graph=True)))
    assert all(map(torch.equal, *results))
    assert [type(r[0].grad_fn).__name__ for r in results] == ["PlainAttentionBackward", "DirectAttentionBackward"]
    with pytest.raises(NotImplementedError, match="no gradients of gradients"):
        results[0][1].sum().backward()


def test_a_recorded_call_that_needs_more_is_dispatched():
    q, k, v = qkv(key_heads=4, grad=True)
    out = sdpa(q, k[:1], v[:1])
    assert type(out.grad_fn).__name__ != "PlainAttentionBackward"
    assert torch.equal(out, sdpa(q, k[:1].expand(2, -1, -1, -1), v[:1].expand(2, -1, -1, -1)))


def terms_of_bias_gradient(tensors, mask, bias):
    """The sums of |dS| over what a bias is broadcast over, for the gradient of check()."""
    full = bias.double().expand(2, 4, 5, 7).clone().requires_grad_()
    out = plain_attention(*[t.double() for t in tensors], mask=mask, bias=full)
    grad = torch.randn(out.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.autograd.grad(out, full, grad)[0].abs().sum_to_size(bias.shape)


def test_options():
    lens, offsets = torch.tensor([7, 3], dtype=torch.int32), torch.tensor([0, 2], dtype=torch.int32)
    i, j = torch.arange(5)[:, None], torch.arange(7)
    gqa = dict(enable_gqa=True)
    check(lambda *t: sdpa(*t, **gqa), plain_attention)
    check(lambda *t: sdpa(*t, is_causal=True, **gqa), lambda *t: plain_attention(*t, mask=j <= i))
    check(lambda *t: sdpa(*t, causal="bottom_right", **gqa), lambda *t: plain_attention(*t, mask=j <= i + 2))
    check(lambda *t: sdpa(*t, window=(2, 1), **gqa), lambda *t: plain_attention(*t, mask=(j >= i - 2) & (j <= i + 1)))
    check(lambda *t: sdpa(*t, valid_lens=lens, **gqa), lambda *t: plain_attention(*t, mask=j < lens[:, None, None, None]))
    check(lambda *t: sdpa(*t, causal="offset", offsets=offsets, **gqa),
          lambda *t: plain_attention(*t, mask=j <= i + offsets[:, None, None, None]))
    check(lambda *t: sdpa(*t, softcap=2.0, scale=0.7, **gqa), lambda *t: plain_attention(*t, softcap=2.0, scale=0.7))
    mask = torch.rand(2, 1, 5, 7) < 0.6
    check(lambda *t: sdpa(*t, mask, **gqa), lambda *t: plain_attention(*t, mask=mask))
    for shape in ((5, 7), (4, 5, 1), (2, 4, 5, 7), (7,)):
        for given in (None, mask):
            tensors, bias = qkv(), torch.randn(shape)
            check(lambda q, k, v, b: sdpa(q, k, v, given, bias=b, **gqa),
                  lambda q, k, v, b: plain_attention(q, k, v, given, b), tensors, [bias],
                  sizes=terms_of_bias_gradient(tensors, given, bias))
    distance = (i + 2 - j).abs()
    check(lambda q, k, v, s: sdpa(q, k, v, sinks=s.float(), **gqa), lambda q, k, v, s: plain_attention(q, k, v, sinks=s),
          more=[torch.randn(4)])
    check(lambda q, k, v, s: sdpa(q, k, v, alibi_slopes=s.float(), **gqa),
          lambda q, k, v, s: plain_attention(q, k, v, bias=-s[:, None, None] * distance), more=[torch.rand(4)])
    slopes = torch.tensor(attune.alibi_slopes(4))
    check(lambda *t: sdpa(*t, alibi=True, **gqa),
          lambda *t: plain_attention(*t, bias=-slopes[:, None, None].to(t[0].dtype) * distance))


def test_layouts_and_broadcasting():
    turned = [torch.randn(2, s, 4, 8).transpose(1, 2) for s in (5, 7, 7)]
    assert torch.equal(sdpa(*turned), sdpa(*[t.contiguous() for t in turned]))
    check(sdpa, plain_attention, [torch.randn(2, 8, 5).mT, torch.randn(2, 7, 8), torch.randn(2, 7, 6)])  # last stride not 1
    check(sdpa, plain_attention, [torch.randn(3, 2, 4, 5, 8), torch.randn(3, 2, 4, 7, 8), torch.randn(3, 2, 4, 7, 6)])
    check(sdpa, plain_attention, [torch.randn(3, 1, 4, 5, 8), torch.randn(2, 1, 7, 8), torch.randn(1, 4, 7, 6)])
    check(sdpa, plain_attention, [torch.randn(5, 8), torch.randn(7, 8), torch.randn(7, 6)])
    negated = torch._neg_view(turned[0])
    assert torch.equal(sdpa(negated, *turned[1:]), sdpa(-turned[0], *turned[1:]))
    with pytest.raises(ValueError, match="^query: is a negated view"):
        attune.scaled_dot_product_attention(negated, *turned[1:])


def test_gradients_are_not_lost():
    """The functions of `attune` itself take part in no autograd, and say so."""
    q, k, v = qkv(grad=True)
    with pytest.raises(ValueError, match="^query: requires a gradient"):
        attune.scaled_dot_product_attention(q, k, v)
    assert not attune.scaled_dot_product_attention(q, k, v, detached=True).requires_grad


def test_dropout():
    q, k, v = qkv(queries=40, keys=50)
    run = lambda: sdpa(q, k, v, dropout_p=0.3, enable_gqa=True)
    torch.manual_seed(5)
    one, two = run(), run()
    torch.manual_seed(5)
    assert torch.equal(run(), one) and not torch.equal(one, two)
    given = sdpa(q, k, v, dropout_p=0.3, seed=11, enable_gqa=True)
    kept = torch.from_numpy(attune.dropout_mask((2, 4, 40, 50), 0.3, seed=11))
    weights = attune.scaled_dot_product_attention(q, k, v, weights=True).weights
    values = v.repeat_interleave(2, 1)
    judge("out", given, (weights * kept / 0.7) @ values, (weights.double() * kept / 0.7) @ values.double())
    assert torch.equal(sdpa(q, k, v, dropout_p=1.0, enable_gqa=True), torch.zeros_like(given))
    with pytest.raises(ValueError, match="dropout"):
        sdpa(q, k, v, dropout_p=1.5, enable_gqa=True)


def test_gradcheck():
    q, k, v = qkv(torch.float64, grad=True)
    bias = torch.randn(4, 5, 7, dtype=torch.float64, requires_grad=True)
    check = lambda function, *inputs: torch.autograd.gradcheck(function, inputs)
    assert check(lambda *t: sdpa(*t, enable_gqa=True, is_causal=True, return_lse=True), q, k, v)
    assert check(lambda q, k, v, b: sdpa(q, k, v, b, enable_gqa=True, softcap=3.0, return_lse=True), q, k, v, bias)
    assert check(lambda *t: sdpa(*t, enable_gqa=True, dropout_p=0.4, seed=3), q, k, v)
    three = [torch.randn(2, n, 4, dtype=torch.float64, requires_grad=True) for n in (5, 7, 7)]
    weight = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    assert check(lambda q, k, v, w: sdpa(q, k, v, score="general", score_weight=w), *three, weight)


def op_inputs(q, k, v, bias=None, mask=None, seed=None, dropout_p=0.0, causal="none"):
    return (q, k, v, None, bias, None, None, mask, None, None, None, seed, None, 0.0, False, causal, None, -1, -1, dropout_p,
            False, 0, 0, 0, 0, 0, "dot_product")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_opcheck(dtype):
    tensors = qkv(dtype, grad=True)
    bias = torch.randn(5, 7, dtype=dtype, requires_grad=True)
    for inputs in (op_inputs(*tensors), op_inputs(*tensors, bias, causal="top_left"),
                   op_inputs(*tensors, mask=torch.rand(5, 7) < 0.7),
                   op_inputs(*tensors, seed=torch.tensor([3]), dropout_p=0.2)):
        torch.library.opcheck(_ops.attention, inputs)
    out, lse = _ops.attention(*op_inputs(*[t.detach() for t in tensors]))
    wanted = [True, True, True, False, False, False, False]
    torch.library.opcheck(_ops.attention_backward, (torch.randn_like(out), None, out, lse,
                                                    *op_inputs(*[t.detach() for t in tensors]), wanted))


def test_compile():
    """No graph break, forward and backward, with sizes that change."""
    def model(q, k, v, mask):
        causal = sdpa(q * 2, k, v, is_causal=True, enable_gqa=True)
        return causal + sdpa(q, k, v, mask, enable_gqa=True) + sdpa(q, k, v, window=(3, 0), sinks=torch.zeros(4),
                                                                    enable_gqa=True)
    compiled = torch.compile(model, fullgraph=True, dynamic=True)
    for keys in (7, 9, 12):
        tensors = qkv(keys=keys, grad=True)
        mask = torch.rand(5, keys) < 0.8
        out, expected = compiled(*tensors, mask), model(*tensors, mask)
        judge("out", out, expected, model(*[t.double() for t in tensors], mask))
        grad = torch.randn_like(out)
        for n, (mine, theirs, exact) in enumerate(zip(
                torch.autograd.grad(out, tensors, grad), torch.autograd.grad(expected, tensors, grad),
                torch.autograd.grad(model(*(wide := [t.detach().double().requires_grad_() for t in tensors]), mask), wide,
                                    grad.double()))):
            judge(f"gradient {n}", mine, theirs, exact)


def test_compile_with_dropout_and_enable():
    def model(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, dropout_p=0.1, is_causal=True)
    with attune.torch.enable():
        tensors = qkv(key_heads=4, grad=True)
        out = torch.compile(model, fullgraph=True)(*tensors)
        out.sum().backward()
        assert torch.isfinite(out).all() and torch.isfinite(tensors[0].grad).all()
        graphs = []
        torch.compile(model, fullgraph=True, backend=lambda graph, _: graphs.append(graph.code) or graph.forward)(*tensors)
    assert "torch.ops.attune.attention" in graphs[0]


def test_transforms():
    q, k, v = qkv(key_heads=4)
    with pytest.raises(NotImplementedError, match="vmap"):
        torch.vmap(sdpa)(q, k, v)
    with pytest.raises(NotImplementedError, match="vmap"):
        torch.vmap(lambda *t: _ops.attention(*op_inputs(*t)))(q, k, v)
    with attune.torch.enable():  # PyTorch's own answers
        judge("vmap", torch.vmap(functional.scaled_dot_product_attention)(q, k, v), plain_attention(q, k, v),
              plain_attention(*[t.double() for t in (q, k, v)]))
    loss = lambda f: (lambda q: f(q, k, v).square().sum())
    judge("torch.func.grad", torch.func.grad(loss(sdpa))(q), torch.func.grad(loss(plain_attention))(q),
          torch.func.grad(lambda q: plain_attention(q, k.double(), v.double()).square().sum())(q.double()))
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(lambda q: sdpa(q, k, v), (q,), (q,))
    q.requires_grad_()
    (grad,) = torch.autograd.grad(sdpa(q, k, v).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no gradients of gradients"):
        grad.sum().backward()


def test_enable():
    q, k, v = qkv(key_heads=4)
    theirs = functional.scaled_dot_product_attention
    with attune.torch.enable():
        assert functional.scaled_dot_product_attention is not theirs
        assert torch.equal(functional.scaled_dot_product_attention(q, k, v), sdpa(q, k, v))
        layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)
        x = torch.randn(2, 5, 32)
        layer(x, x, x, need_weights=False)[0].sum().backward()
        with attune.torch.enable():
            pass
        assert functional.scaled_dot_product_attention is not theirs
    assert functional.scaled_dot_product_attention is theirs
    attune.torch.enable()
    try:
        assert torch.equal(functional.scaled_dot_product_attention(q, k, v, is_causal=True), sdpa(q, k, v, is_causal=True))
        # A number that the library refuses: PyTorch's own answer.
        for tensors in ((q, k, v), [t.detach().requires_grad_() for t in (q, k, v)]):
            assert functional.scaled_dot_product_attention(*tensors, scale=float("nan")).isnan().all()
        meta = [t.to("meta") for t in (q, k, v)]
        assert functional.scaled_dot_product_attention(*meta).device.type == "meta"  # another device: PyTorch's own
    finally:
        attune.torch.disable()
    assert functional.scaled_dot_product_attention is theirs
    with pytest.raises(attune.UnsupportedError, match="^query: is on meta"):
        sdpa(*meta)


def test_autocast():
    q, k, v = qkv(key_heads=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert sdpa(q, k, v).dtype == torch.bfloat16 == _enable.original(q, k, v).dtype
        with attune.torch.enable():
            assert functional.scaled_dot_product_attention(q, k, v).dtype == torch.bfloat16


def test_checkpoint_recomputes_the_same_dropout():
    from torch.utils.checkpoint import checkpoint
    tensors = qkv(key_heads=4, grad=True)
    grads = []
    for how in (lambda f: f(*tensors), lambda f: checkpoint(f, *tensors, use_reentrant=False)):
        torch.manual_seed(3)
        grads.append(torch.autograd.grad(how(lambda *t: sdpa(*t, dropout_p=0.3)).sum(), tensors))
    assert all(map(torch.equal, *grads))


def test_backward_in_another_thread():
    tensors = qkv(key_heads=4, grad=True)
    expected = torch.autograd.grad(sdpa(*tensors).sum(), tensors)
    found = []
    out = sdpa(*tensors).sum()
    thread = threading.Thread(target=lambda: found.extend(torch.autograd.grad(out, tensors)))
    thread.start()
    thread.join()
    assert all(map(torch.equal, found, expected))


def test_words_of_what_is_wrong():
    q, k, v = qkv(key_heads=4)
    for says, call in (("window", lambda: sdpa(q, k, v, window=(-3, 0))), ("score", lambda: sdpa(q, k, v, score="x")),
                       ("bias: attn_mask holds numbers", lambda: sdpa(q, k, v, torch.zeros(5, 7), bias=torch.zeros(5, 7))),
                       ("do not broadcast; enable_gqa", lambda: sdpa(*qkv())),
                       ("do not broadcast", lambda: sdpa(q, k[:1, :3], v)),
                       ("causal: is_causal", lambda: sdpa(q, k, v, is_causal=True, causal="bottom_right")),
                       ("valid_lens", lambda: sdpa(q, k, v, valid_lens=torch.tensor([9, 9], dtype=torch.int32)))):
        with pytest.raises(ValueError, match=says):
            call()
