# SPDX-License-Identifier: MIT
"""Functions of attune.torch beside scaled_dot_product_attention: gradcheck in f64, opcheck, torch.compile, and what has no
gradients says so."""
import pytest

torch = pytest.importorskip("torch")
import attune  # noqa: E402
import attune.torch as at  # noqa: E402
from attune.torch import _layer_ops as ops  # noqa: E402

LENS = torch.tensor([5, 2], dtype=torch.int32)


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def f64(*shape):
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


def gradcheck(function, *inputs):
    assert torch.autograd.gradcheck(function, inputs)


def test_additive_attention():
    tensors = f64(2, 3, 4), f64(2, 5, 6), f64(2, 5, 3), f64(7, 4), f64(7, 6), f64(7)
    biases = f64(7), f64(7)
    gradcheck(lambda *t: at.additive_attention(*t, valid_lens=LENS, return_lse=True), *tensors)
    gradcheck(lambda *t: at.additive_attention(*t[:6], b_query=t[6], b_key=t[7], causal="top_left"), *tensors, *biases)
    gradcheck(lambda q, k, v: at.additive_attention(q, k, v, dropout_p=0.3, seed=4), f64(2, 3, 7), f64(2, 5, 7), f64(2, 5, 3))
    plain = [t.detach() for t in tensors]
    q, k, v, w_q, w_k, w = plain
    assert torch.equal(at.additive_attention(*plain), attune.additive_attention(q, k, v, w_query=w_q, w_key=w_k, w_score=w))
    torch.library.opcheck(ops.additive, (*tensors[:5], None, None, tensors[5], *(None,) * 8, None, 0.0, False, "none", None, -1,
                                         -1, 0.0, False, *(0,) * 5))


def test_linear():
    x, weight, bias = f64(2, 3, 4), f64(5, 4), f64(5)
    gradcheck(at.linear, x, weight, bias)
    gradcheck(at.linear, x, weight)
    assert torch.allclose(at.linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias), rtol=1e-14, atol=1e-14)
    torch.library.opcheck(ops.linear, (x, weight, bias))
    torch.library.opcheck(ops.linear, (x, weight.detach(), None))


@pytest.mark.parametrize("fill", ["zero", "seed"])
def test_masked_softmax(fill):
    scores = f64(2, 3, 5)
    gradcheck(lambda s: at.masked_softmax(s, LENS, fill), scores)
    torch.library.opcheck(ops.softmax, (scores, LENS, fill))


def test_multi_head_attention():
    x, memory = f64(2, 3, 8), f64(2, 5, 6)
    weights = f64(8, 8), f64(4, 6), f64(4, 6), f64(7, 8)
    how = dict(heads=4, key_heads=2)
    gradcheck(lambda x, m, *w: at.multi_head_attention(x, m, m, *w, **how, valid_lens=LENS), x, memory, *weights)
    plain = [t.detach() for t in (x, memory, memory, *weights)]
    mine, theirs = at.multi_head_attention(*plain, **how), attune.multi_head_attention(*plain, **how)
    assert (mine - theirs).abs().max() <= 8 * 2.0**-52 * theirs.abs().max()


def test_autocast_of_layers():
    x, weights = torch.randn(2, 3, 8), [torch.randn(8, 8) for _ in range(4)]
    with torch.autocast("cpu", torch.bfloat16):
        out = at.multi_head_attention(x, x, x, *weights, heads=2)
    halves = [t.bfloat16() for t in (x, *weights)]
    assert torch.equal(out, at.multi_head_attention(*[halves[0]] * 3, *halves[1:], heads=2))


def test_transform_rows():
    x, weight = f64(1, 2, 3, 8), f64(8)
    positions = torch.tensor([[0, 4, 2]], dtype=torch.int32)
    steps = dict(rope_base=100.0, hadamard=True)
    gradcheck(lambda x, w: at.transform_rows(x, positions, norm_weight=w, **steps), x, weight)
    gradcheck(lambda x: at.transform_rows(x, positions, **steps), x)
    torch.library.opcheck(ops.rows, (x, positions, weight, None, None, 1e-6, 100.0, 1.0, 0, 0, "halves", False))


def test_packed_batches():
    q, k, v = torch.randn(7, 4, 8), torch.randn(9, 2, 8), torch.randn(9, 2, 8)
    out, lse = at.variable_length_attention(q, k, v, [0, 3, 7], [0, 4, 9], causal="bottom_right", return_lse=True)
    assert torch.equal(out, attune.variable_length_attention(q, k, v, [0, 3, 7], [0, 4, 9], causal="bottom_right"))
    assert lse.shape == (4, 7)


CU_Q, CU_K = [0, 3, 3, 4, 6], [0, 4, 6, 6, 9]  # a sequence without queries, one without keys; a row of each beyond the last


def test_packed_gradients():
    q, k, v = f64(7, 4, 4), f64(10, 2, 4), f64(10, 2, 3)
    ends = [torch.tensor(cu, dtype=torch.int32) for cu in (CU_Q, CU_K)]
    packed = lambda *t, **how: at.variable_length_attention(*t, CU_Q, CU_K, **how)
    gradcheck(packed, q, k, v)
    gradcheck(lambda *t: packed(*t, causal="bottom_right", window=(2, 0), softcap=2.0), q, k, v)
    gradcheck(lambda *t: packed(*t, dropout_p=0.3, seed=4), q, k, v)
    with_lse = lambda *t: at.variable_length_attention(*t, [0, 3, 7], [0, 4, 10], return_lse=True)
    gradcheck(with_lse, q, k, v)
    gradcheck(lambda k: packed(q.detach(), k, v.detach()), k)
    wide = lambda t: t.repeat_interleave(2, -1)[..., ::2]  # the last stride is 2
    gradcheck(lambda *t: packed(*map(wide, t)), q, k, v)
    # Rows of one call and of three, of which autograd makes the gradients of slices.
    one = lambda t: t.transpose(0, 1)[None]
    parts = [one(at.scaled_dot_product_attention(*map(one, (q[a:b], k[c:d], v[c:d])), enable_gqa=True)[0])[0]
             for a, b, c, d in zip(CU_Q, CU_Q[1:], CU_K, CU_K[1:])]
    expected, got = torch.cat([*parts, torch.zeros(1, 4, 3, dtype=torch.float64)]), packed(q, k, v)
    assert torch.equal(got, expected)
    weight = torch.randn_like(got)
    for mine, theirs in zip(*(torch.autograd.grad((o * weight).sum(), (q, k, v)) for o in (got, expected))):
        assert torch.equal(mine, theirs)
    torch.library.opcheck(ops.packed, (q, k, v, *ends, *(None,) * 8, None, 0.0, False, "none", None, -1, -1, 0.0, False,
                                         *(0,) * 5))


def test_packed_gradients_of_slopes_and_sinks():
    q, k, v = (torch.randn(n, h, 4) for n, h in ((6, 4), (9, 2), (9, 2)))
    slopes, sinks = (torch.rand(4, requires_grad=True) for _ in range(2))
    out = at.variable_length_attention(q, k, v, CU_Q, CU_K, alibi_slopes=slopes, sinks=sinks)
    weight = torch.randn_like(out)
    got = torch.autograd.grad((out * weight).sum(), (slopes, sinks))
    how = dict(alibi_slopes=slopes.detach(), sinks=sinks.detach())
    forward = attune.variable_length_attention(q, k, v, CU_Q, CU_K, lse=True, **how)
    expected = attune.variable_length_attention_backward(q, k, v, CU_Q, CU_K, forward.out, forward.lse, weight, **how,
                                                         gradients=["alibi_slopes", "sinks"])
    assert torch.equal(got[0], expected["alibi_slopes"]) and torch.equal(got[1], expected["sinks"])
    q.requires_grad_()
    first, = torch.autograd.grad(at.variable_length_attention(q, k, v, CU_Q, CU_K).sum(), q, create_graph=True)
    with pytest.raises(NotImplementedError, match="no gradients of gradients of packed batches"):
        first.sum().backward()


def test_packed_compiles():
    q, k, v = f64(7, 4, 4), f64(10, 2, 4), f64(10, 2, 3)
    ends = [torch.tensor(cu, dtype=torch.int32) for cu in (CU_Q, CU_K)]
    call = lambda *t: at.variable_length_attention(*t, *ends, causal="bottom_right") * 2
    grads = [torch.autograd.grad(f(q, k, v).square().sum(), (q, k, v))
             for f in (call, torch.compile(call, fullgraph=True, backend="aot_eager"))]
    assert all(torch.equal(a, b) for a, b in zip(*grads))


def test_pages_and_caches():
    pool = torch.zeros(4, 16, 2, 8), torch.zeros(4, 16, 2, 8)
    rows = torch.randn(18, 2, 8), torch.randn(18, 2, 8)
    slots = torch.cat([torch.arange(32, 48), torch.arange(2)])
    at.paged_append(*rows, slots, *pool)
    q = torch.randn(3, 4, 8)
    out = at.paged_attention(q, *pool, [0, 3], torch.tensor([[2, 0]], dtype=torch.int32), [18])
    one = lambda t: t.transpose(0, 1)[None]
    assert torch.equal(one(out), at.scaled_dot_product_attention(one(q), *map(one, rows), causal="bottom_right",
                                                                 enable_gqa=True))
    quantised = [(torch.zeros(4, 16, 2, 4, dtype=torch.uint8), *(torch.zeros(4, 16, 2, 1, dtype=torch.half) for _ in range(2))),
                 (torch.zeros(4, 16, 2, 8, dtype=torch.int8), torch.zeros(4, 16, 2))]
    table = torch.tensor([[2, 0]], dtype=torch.int32)
    for keys, values in (quantised, quantised[::-1]):
        at.paged_append(*rows, slots, keys, values)
        near = at.paged_attention(q, keys, values, [0, 3], table, [18])
        assert near.shape == out.shape and 0 < (near - out).abs().max() < 0.3
        assert torch.equal(near, attune.paged_attention(q, keys, values, [0, 3], table, [18]))
        torch.library.opcheck(ops.paged, (q, *keys[:3], *(None,) * (3 - len(keys)), *values, *(None,) * (3 - len(values)),
                                          torch.tensor([0, 3], dtype=torch.int32), table, torch.tensor([18], dtype=torch.int32),
                                          *(None,) * 9, None, 0.0, False, True, -1, -1, False))
    with pytest.raises(ValueError, match="^value_pages: must be an array"):
        at.paged_attention(q, pool[0], (), [0, 3], table, [18])
    caches = torch.zeros(1, 2, 20, 8), torch.zeros(1, 2, 20, 8)
    at.kv_append(*map(one, rows), [0], *caches)
    assert torch.equal(caches[0][:, :, :18], one(rows[0]))
    rows[0].requires_grad_()
    with pytest.raises(NotImplementedError, match="kv_append has no gradients"):
        at.kv_append(*map(one, rows), [0], *caches)
    with pytest.raises(TypeError, match="unexpected keyword argument 'bias'"):
        at.paged_attention(q, *pool, [0, 3], [[2, 0]], [18], bias=q)


def test_weight_sums():
    pool = torch.randn(3, 16, 2, 8), torch.randn(3, 16, 2, 8)
    q, table = torch.randn(3, 4, 8), torch.tensor([[2, 0]], dtype=torch.int32)
    ends, lens = (torch.tensor(x, dtype=torch.int32) for x in ([0, 3], [18]))
    sums, same = torch.full((1, 2, 20), torch.nan), torch.empty(1, 2, 20)
    out = at.paged_attention(q, *pool, ends, table, lens, weight_sums=sums)
    assert torch.equal(out, at.paged_attention(q, *pool, ends, table, lens))
    attune.paged_attention(q, *pool, ends, table, lens, weight_sums=same)
    assert torch.equal(sums, same) and abs(float(sums.sum()) - 3 * 4) < 1e-4
    torch.library.opcheck(ops.paged_with_sums, (q, pool[0], None, None, pool[1], None, None, ends, table, lens, *(None,) * 9,
                                                None, 0.0, False, True, -1, -1, False, sums))
    call = torch.compile(lambda s: at.paged_attention(q, *pool, ends, table, lens, weight_sums=s) * 2, fullgraph=True,
                         backend="aot_eager")
    assert torch.equal(call(sums.fill_(torch.nan)), out * 2) and torch.equal(sums, same)
    with pytest.raises(NotImplementedError, match="paged_attention with weight_sums has no gradients"):
        at.paged_attention(q.requires_grad_(), *pool, ends, table, lens, weight_sums=sums)


def test_merge():
    q, k, v = (torch.randn(1, 2, n, 8) for n in (3, 6, 6))
    parts = [at.scaled_dot_product_attention(q, k[:, :, s], v[:, :, s], return_lse=True) for s in (slice(0, 2), slice(2, 6))]
    assert torch.allclose(at.merge_attention(parts), at.scaled_dot_product_attention(q, k, v), atol=1e-6)


def test_compile():
    def model(x, weight, positions):
        rows = at.transform_rows(x, positions, rope_base=100.0)
        return at.linear(rows, weight) + at.masked_softmax(at.linear(rows[0], weight), None)
    x, weight = torch.randn(1, 2, 3, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    positions = torch.tensor([[0, 4, 2]], dtype=torch.int32)
    out = torch.compile(model, fullgraph=True)(x, weight, positions)
    expected = model(x, weight, positions)
    assert torch.allclose(out, expected, atol=1e-6)
    grads = [torch.autograd.grad(o.square().sum(), (x, weight)) for o in (out, expected)]
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(*grads))
